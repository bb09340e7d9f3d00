#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <torch/torch.h>

#include "base/result.h"
#include "format/safetensors.h"

namespace dure {

// One tensor that is learned: views of the two flat buffers below.
struct Parameter {
  std::string name;  // "dense.weight"
  at::Tensor value;
  at::Tensor grad;
  std::int64_t offset = 0;  // in the flat buffers, in numbers
  std::int64_t count = 0;
};

// All weights in one piece of memory, and all gradients in another: one sum, one optimizer step,
// one copy for a checkpoint, whatever the layers are. Every parameter begins at a multiple of 64
// bytes; the gaps are zero and stay so.
class Parameters {
 public:
  struct Spec {
    std::string name;
    std::vector<std::int64_t> shape;
    bool channels_last = false;  // of 4 dimensions, the second varies fastest in memory
  };

  explicit Parameters(const std::vector<Spec>& specs);

  std::vector<Parameter>& all() { return all_; }
  const std::vector<Parameter>& all() const { return all_; }
  Parameter& operator[](std::size_t i) { return all_[i]; }
  // How many numbers are learned, without the gaps.
  std::int64_t count() const;

  at::Tensor& values() { return values_; }
  at::Tensor& grads() { return grads_; }
  // The gradients, followed by a few numbers that are summed over the workers with them.
  at::Tensor& shared() { return shared_; }
  float* extras() { return shared_.data_ptr<float>() + grads_.numel(); }

 private:
  std::vector<Parameter> all_;
  at::Tensor values_;
  at::Tensor shared_;
  at::Tensor grads_;  // a view of shared_
};

// A view of the tensor's numbers for a file; makes it contiguous first.
Array toArray(const at::Tensor& tensor);
// A tensor that owns a copy.
at::Tensor toTensor(const Array& array);

// Every weight by its name, in PyTorch's layout.
NamedArrays namedWeights(const Parameters& parameters);
// Invalid, naming the weight, if one is missing or has another shape.
Status loadWeights(Parameters& parameters, const NamedArrays& weights);

}  // namespace dure
