#pragma once

#include <memory>
#include <string>

#include <torch/torch.h>

#include "base/result.h"
#include "format/batch_rows.h"
#include "serve/model.h"

namespace dure::predict {

// A model that libtorch computes.
class TorchModel : public serve::Model {
 public:
  const serve::ModelInfo& info() const override { return info_; }
  Result<serve::Predictions> run(std::span<const serve::Samples* const> parts) const override;

  // What is done to numbers before `scores` gets them.
  const format::Scaling& scaling() const { return scaling_; }
  // For samples {N, sample…} that are scaled already: logits where the model ends in softmax or
  // sigmoid, else what it gives; {N, …}. Throws what torch throws.
  virtual at::Tensor scores(const at::Tensor& samples) const = 0;
  // What callers get: probabilities where there are such.
  at::Tensor outputsOf(const at::Tensor& scores) const;

 protected:
  serve::ModelInfo info_;
  format::Scaling scaling_;
};

// A stack of layers: .h5, .safetensors with its description, .pt that Dure wrote, Keras' .json with
// weights. A module: any other .pt. A directory: the newest whole checkpoint in it. NotFound if
// there is nothing at `path`.
Result<std::shared_ptr<const TorchModel>> loadTorchModel(const std::string& path);

// What a thread that runs models calls first: one thread each, since several run side by side.
void prepareThread();

}  // namespace dure::predict
