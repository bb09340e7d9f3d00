#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <memory>
#include <string>

#include "base/clock.h"
#include "group/transport.h"

namespace dure::group {

struct GlooTimeouts {
  Duration connect;
  Duration message;  // from asking for it until it has come
};

// Leaders that reach each other through Gloo. `address` is this host's, as the others can reach it;
// empty: Gloo's own choice. Waits until all have come; Unavailable if they do not.
Result<std::unique_ptr<Transport>> connectGloo(const c10::intrusive_ptr<c10d::Store>& store,
                                               int index, int hosts, const std::string& address,
                                               const GlooTimeouts& timeouts);

}  // namespace dure::group
