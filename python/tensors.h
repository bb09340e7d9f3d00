#pragma once

#include <torch/csrc/distributed/c10d/Types.hpp>

#include <cstdint>
#include <list>
#include <optional>
#include <span>

#include <ATen/ATen.h>

#include "collective/number.h"

namespace dure::python {

// A tensor's bytes in one piece in this process's memory. A tensor that lies elsewhere or has gaps
// is copied, and copied back by done().
class Flat {
 public:
  explicit Flat(const at::Tensor& tensor);
  std::span<std::byte> bytes() const;
  at::Tensor& tensor() { return flat_; }
  // The tensor has what the bytes are now.
  void done();

 private:
  at::Tensor tensor_;
  at::Tensor flat_;
};

// What a reduction of torch is here. Throws, as torch does, for what there is no such thing as.
struct TorchReduction {
  collective::Number number;
  collective::Reduction reduction;
  bool average;
};
TorchReduction reductionOf(const at::Tensor& tensor, const c10d::ReduceOp& operation);
bool isBitwise(const c10d::ReduceOp& operation);

// Identifies the all-reduces of a program by the address of their tensors, which in training is the
// same in every step: each is then a stream with a residual of its own. Small tensors are of none,
// since their addresses are reused for others, and they cost little in full.
class Streams {
 public:
  struct Named {
    int stream;
    std::optional<int> forgotten;  // one whose number this is no more
  };
  std::optional<Named> streamOf(const at::Tensor& tensor);

 private:
  struct Entry {
    const void* begin;
    std::int64_t count;
    int stream;
  };
  std::list<Entry> entries_;  // the last used first
  int next_ = 0;
};

}  // namespace dure::python
