#pragma once

#include <cstdint>
#include <map>
#include <string>

#include <torch/torch.h>

#include "spec/job.h"

namespace dure::train {

// PyTorch's SGD, Adam and AdamW, to its formulas, in one pass over all weights.
class FlatOptimizer {
 public:
  FlatOptimizer(const spec::Optimizer& settings, std::int64_t count);

  void step(at::Tensor& values, const at::Tensor& grads, double rate);

  // What it remembers, by name, to be saved and copied back; `steps` belongs to it.
  std::map<std::string, at::Tensor>& memory() { return memory_; }
  std::int64_t steps() const { return steps_; }
  void setSteps(std::int64_t steps) { steps_ = steps; }

 private:
  const spec::Optimizer settings_;
  std::map<std::string, at::Tensor> memory_;
  std::int64_t steps_ = 0;
};

// Scales the gradients down to a 2-norm of `limit` if theirs is above. Returns what it was.
double clipNorm(at::Tensor& grads, double limit);

}  // namespace dure::train
