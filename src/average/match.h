#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "format/tensor_places.h"

// Whether models can be averaged, and what is done to each tensor. Pure.
namespace dure::average {

struct NamedModel {
  std::string path;
  format::ModelTensors content;
};

// Invalid, naming the layer and both shapes (or what else differs), unless the second model has the
// tensors of the first, and its architecture where both say theirs. Puts its tensors into the order
// of the first's.
Status match(const NamedModel& first, NamedModel& other);

enum class Treatment {
  kCombine,   // floats, number by number
  kVariance,  // the running variance of a batch normalisation
  kCounter,   // whole numbers that count: the largest
  kState,     // of a random generator: the first one's
  kEqual,     // other whole numbers, which must be equal
};

struct TensorPlan {
  Treatment treatment = Treatment::kCombine;
  std::size_t mean = 0;  // with kVariance: the number of the tensor with the means
};

// For each tensor, in its order.
std::vector<TensorPlan> planTensors(const std::vector<format::TensorPlace>& tensors);

// "(16, 2)"
std::string shapeText(const std::vector<std::int64_t>& shape);

}  // namespace dure::average
