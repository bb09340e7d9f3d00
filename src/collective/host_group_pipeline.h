#pragma once

// What the operations of HostGroup have in common; for its own files.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "collective/host_group.h"
#include "collective/part.h"

namespace dure::collective {

inline void copyBytes(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
}

template <typename Body>
Status HostGroup::run(const Call& call, std::size_t chunks, std::uint32_t stages,
                      const Body& body) {
  if (failed_) return *failed_;
  const std::uint64_t packed = call.packed();
  memory_->line(member_).call[operations_ % 2].store(packed, std::memory_order_relaxed);
  const std::size_t steps = chunks + stages - 1;
  for (std::size_t i = 0; i < steps; ++i) {
    const std::uint32_t step = step_++;
    Status status;
    if (i > 0) status = sync_->wait(step - 1);
    if (status && i == 1) status = checkCalls(packed);
    if (!status) {
      failed_ = status.error();
      return status;
    }
    for (std::uint32_t stage = 0; stage < stages; ++stage) {
      if (i >= stage && i - stage < chunks) body(stage, i - stage, step - stage);
    }
    if (i + 1 < steps) sync_->post(step);
  }
  ++operations_;
  return {};
}

inline void HostGroup::give(std::byte* to, const std::byte* from, std::size_t bytes) {
  copyBytes(to, from, bytes);
  given_ += static_cast<std::int64_t>(bytes);
}

}  // namespace dure::collective
