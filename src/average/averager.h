#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "average/combine.h"
#include "base/result.h"

namespace dure::average {

struct AverageOptions {
  std::vector<std::string> models;
  std::string output;
  Rule rule;
  bool by_samples = false;  // the rule's weights are what the models say of their samples
};

struct AverageReport {
  std::size_t tensors = 0;
  std::uint64_t bytes = 0;         // of the result
  std::vector<double> weights;     // empty: equal ones
  std::vector<std::string> notes;  // what was not averaged, and why
};

// Hears how far it is. What it returns ends the work, if it is an error.
using AverageProgress = std::function<Status(std::uint64_t done, std::uint64_t of)>;

// Writes a model that is the first one in everything but its weights, which are those of all models
// combined, some megabytes at a time, and what it says of its training (facts.h). Sums are in
// double. Written beside its place, synced, renamed.
//
// Invalid, in one sentence that names file, layer and shapes, if the models do not match, or if a
// number is NaN or infinite. The variances of batch normalisations are those of all data together;
// whole numbers that count become the largest, others must be equal.
Result<AverageReport> averageModels(const AverageOptions& options, const AverageProgress& progress);

// The models of a directory, numbers in their names by value: every .h5 file, or else every
// .safetensors, or else every .pt; but not `output`, nor what is hidden. NotFound if there are
// none.
Result<std::vector<std::string>> findModels(const std::string& folder, const std::string& output);

}  // namespace dure::average
