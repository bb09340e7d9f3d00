#pragma once

#include <string>

#include "base/result.h"

namespace dure::group {

// Where this process runs: the same text in two processes means that they can share memory and see
// each other's end. That takes the same start of the same machine, the same network and process
// namespaces, and the same user.
Result<std::string> hostIdentity();

// The address from which this host would talk to `address`, which may be a name; empty if it
// cannot.
std::string localAddressTowards(const std::string& address);
bool isLoopback(const std::string& address);

}  // namespace dure::group
