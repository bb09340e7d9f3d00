#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <torch/torch.h>

#include "base/result.h"
#include "format/safetensors.h"

namespace dure::train {

// One tensor of weights: views of the flat buffers below.
struct Parameter {
  std::string name;  // "dense.weight"
  at::Tensor value;
  at::Tensor grad;          // undefined if it is frozen
  std::int64_t offset = 0;  // in the flat buffers, in numbers
  std::int64_t count = 0;
};

// All weights in one piece of memory, and all gradients in another: one all-reduce, one optimizer
// step, one copy for a checkpoint, whatever the layers are. Every parameter begins at a multiple of
// 64 bytes; the gaps are zero and stay so. Frozen weights lie apart from both: neither an optimizer
// nor an all-reduce ever sees them.
class Parameters {
 public:
  struct Spec {
    std::string name;
    std::vector<std::int64_t> shape;
    bool channels_last = false;  // of 4 dimensions, the second varies fastest in memory
    bool frozen = false;         // belongs to the model, but is not learned
  };

  explicit Parameters(const std::vector<Spec>& specs);

  // What is learned, in the order of the specs.
  std::vector<Parameter>& all() { return all_; }
  const std::vector<Parameter>& all() const { return all_; }
  // By the number of its spec, learned or frozen.
  std::size_t size() const { return places_.size(); }
  Parameter& operator[](std::size_t i) { return list(i)[places_[i].index]; }
  const Parameter& operator[](std::size_t i) const { return const_cast<Parameters&>(*this)[i]; }
  // How many numbers are learned, without the gaps.
  std::int64_t count() const;

  at::Tensor& values() { return values_; }
  at::Tensor& grads() { return grads_; }
  // The gradients, followed by a few numbers that workers all-reduce with them.
  at::Tensor& shared() { return shared_; }
  float* extras() { return shared_.data_ptr<float>() + grads_.numel(); }

 private:
  struct Place {
    bool frozen;
    std::size_t index;
  };
  std::vector<Parameter>& list(std::size_t i) { return places_[i].frozen ? frozen_ : all_; }

  std::vector<Parameter> all_;
  std::vector<Parameter> frozen_;
  std::vector<Place> places_;  // of every spec, in one of the two above
  at::Tensor values_;
  at::Tensor shared_;
  at::Tensor grads_;  // a view of shared_
};

// A view of the tensor's numbers for a file; makes it contiguous first.
format::Array toArray(const at::Tensor& tensor);
// Whether toArray can have it: complex numbers and the like cannot be in a file of ours.
bool isArrayType(const at::Tensor& tensor);
// A tensor that owns a copy.
at::Tensor toTensor(const format::Array& array);

// Every weight by its name, in PyTorch's layout, the frozen ones as well.
format::NamedArrays namedWeights(const Parameters& parameters);
// Invalid, naming the weight, if one is missing or has another shape. Frozen ones may be missing,
// as they are from checkpoints, and stay what they are.
Status loadWeights(Parameters& parameters, const format::NamedArrays& weights);

}  // namespace dure::train
