#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <torch/torch.h>

#include "base/result.h"
#include "train/architecture.h"
#include "train/model_about.h"
#include "train/parameters.h"

namespace dure::train {

// Where the randomness of one step comes from, so that it is the same whoever computes which part
// of the batch, and after a restart.
struct StepRandom {
  std::uint64_t key = 0;          // of (seed, step)
  std::int64_t first_sample = 0;  // the index in the step's batch of the first sample given
};

// What is trained: from samples to logits (scores before softmax or sigmoid), or to plain outputs.
class Network {
 public:
  virtual ~Network() = default;

  Parameters& parameters() { return *parameters_; }
  // Numbers that are not learned but change with training, such as running means and counts:
  // contiguous, and none for most models. They are part of checkpoints; those that are not whole
  // numbers are averaged over the workers wherever gradients or weights are.
  virtual std::vector<at::Tensor> buffers() { return {}; }

  // `input` is {N, sample…}, numbers or words. With `random` for training; null for evaluation.
  // While training, gradients go to parameters().grads() by backward(); `add` to what is there
  // already, or in its place.
  virtual at::Tensor forward(const at::Tensor& input, const StepRandom* random) = 0;
  // Before the first, and between further forward passes of one step.
  virtual void beginStep(bool add) = 0;

  // The file's ending says which format. Invalid for one that this network cannot be written in.
  virtual Status save(const std::string& path, const ModelAbout& about) = 0;
  // What the layers are, as Keras describes them; empty for a module of somebody's own.
  virtual std::string describe(const ModelAbout&) const { return ""; }

 protected:
  std::unique_ptr<Parameters> parameters_;
};

// A stack of our own layers, with weights drawn by the seed.
Result<std::unique_ptr<Network>> makeLayerNetwork(Architecture architecture, std::uint64_t seed);
// A TorchScript module of the user's own, with the weights in the file. Invalid for one that
// saveLayers wrote: those are read as the layers that they are.
Result<std::unique_ptr<Network>> loadScriptNetwork(const std::string& path);

// What a model takes, as far as that is known before the data is opened.
struct ModelInput {
  bool words = false;
  std::int64_t vocabulary = 0;  // with `words`: how many it knows; 0: as many as the data has
  std::optional<format::Scaling> scaling;  // what the file does to samples
};
Result<ModelInput> inputOf(const spec::Model& model);

// What the job asks for. Invalid, in one sentence that names the file, if a model from a file does
// not fit the data.
Result<std::unique_ptr<Network>> makeNetwork(const spec::Train& train, const DataShape& data);

}  // namespace dure::train
