#pragma once

#include <string>

#include "base/fd.h"
#include "base/result.h"

namespace dure::local {

// A network namespace as `ip netns` names them.
Result<Fd> openNetwork(const std::string& name);

struct NetworkAddress {
  std::string address;
  std::string interface;
};
// The first IPv4 address in that namespace that is not loopback.
Result<NetworkAddress> networkAddress(const std::string& name);

}  // namespace dure::local
