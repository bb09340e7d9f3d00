#pragma once

#include <chrono>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

namespace dure::agent {

// Whom to ask instead of those that /etc/resolv.conf names.
struct NameServer {
  std::string address;  // IPv4
  int port = 53;
  std::vector<std::string> search;  // domains that names may be in
};

// Asks DNS for the names until each has had an address, for as long as `patience` and `stop` allow.
// Those that have had none. DNS alone, since a static program in a foreign image has no other way.
// Takes up to a second longer for every server that does not answer.
std::vector<std::string> awaitNames(const std::vector<std::string>& names,
                                    std::chrono::milliseconds patience, const std::stop_token& stop,
                                    const std::optional<NameServer>& server = {});

}  // namespace dure::agent
