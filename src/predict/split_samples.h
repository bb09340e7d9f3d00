#pragma once

#include <span>
#include <vector>

#include <torch/torch.h>

#include "base/result.h"
#include "format/dataset.h"
#include "predict/torch_model.h"

namespace dure::predict {

struct LabelledBatch {
  at::Tensor samples;  // {N, sample…}, scaled, or words
  std::vector<double> labels;
};

// The samples of a split as a model takes them. Both outlive it.
class SplitSamples {
 public:
  SplitSamples(const TorchModel& model, const format::Split& split)
      : model_(model), split_(split) {}

  // Invalid if the model takes samples of another shape or kind.
  Status check() const;
  Result<LabelledBatch> read(std::span<const std::int64_t> rows) const;

 private:
  const TorchModel& model_;
  const format::Split& split_;
};

}  // namespace dure::predict
