#pragma once

#include <cstdint>

#include <torch/torch.h>

namespace dure::train {

enum class LossType { kClasses, kBinary, kRegression };

// What the outputs are compared with: classes (cross-entropy), a yes or no (one output, binary
// cross-entropy), or numbers (squared error).
LossType lossFor(std::int64_t classes, std::int64_t outputs);

// The sum over the samples, for backward. `smoothing` spreads that part of the target over all
// classes.
at::Tensor lossSum(LossType type, const at::Tensor& outputs, const at::Tensor& labels,
                   double smoothing);

// How many of the samples are put into their class.
std::int64_t countCorrect(LossType type, const at::Tensor& outputs, const at::Tensor& labels);

}  // namespace dure::train
