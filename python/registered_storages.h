#pragma once

#include <c10/core/StorageImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <cstddef>
#include <span>
#include <unordered_map>

#include <ATen/ATen.h>

namespace dure::python {

// Registers the memory of tensors that a program all-reduces repeatedly, such as the buckets of
// DDP, so that these all-reduces are zero-copy within a host. The storage of such a tensor
// unregisters its memory when it is freed, resized or replaced; nothing else about it changes.
class RegisteredStorages {
 public:
  // Smaller tensors are left alone: their all-reduces copy in any case.
  static constexpr std::size_t kLeast = 64u << 10u;

  // Before an all-reduce of a contiguous tensor; nobody else uses its numbers meanwhile. Does
  // nothing for memory that is not of torch's own allocator for CPUs.
  void beforeAllReduce(const at::Tensor& tensor);

 private:
  // Holds on to the object, not to the memory: no other storage can be mistaken for it.
  using Weak = c10::weak_intrusive_ptr<c10::StorageImpl>;
  struct Seen {
    Weak storage;
    std::size_t bytes;
    int times;
  };

  void forgetSome();

  std::unordered_map<const std::byte*, Seen> seen_;  // by where the numbers begin
};

}  // namespace dure::python
