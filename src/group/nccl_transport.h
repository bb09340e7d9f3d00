#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <memory>

#include "base/clock.h"
#include "group/transport.h"

namespace dure::group {

// Leaders that reach each other through NCCL, by way of the memory of a GPU. Invalid if this build
// of torch has no NCCL or this host no GPU; Unavailable if the others do not come.
Result<std::unique_ptr<Transport>> connectNccl(const c10::intrusive_ptr<c10d::Store>& store,
                                               int index, int hosts, Duration timeout);

}  // namespace dure::group
