#include "backend/local/network.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>

#include <optional>
#include <thread>

namespace dure::local {

Result<Fd> openNetwork(const std::string& name) {
  if (name.empty() || name.find('/') != std::string::npos)
    return Error(Code::kInvalid,
                 "network " + name + ": not a name that `ip netns list` would print");
  Fd fd(open(("/run/netns/" + name).c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return systemError("network " + name);
  return fd;
}

Result<NetworkAddress> networkAddress(const std::string& name) {
  auto network = openNetwork(name);
  if (!network) return std::move(network).error();
  std::optional<Result<NetworkAddress>> found;
  // A thread can be in another namespace than the rest of its process; this one ends right away.
  std::jthread([&] {
    if (setns(network->get(), CLONE_NEWNET) != 0) {
      found = Error(systemError("enter network " + name));
      return;
    }
    ifaddrs* list = nullptr;
    if (getifaddrs(&list) != 0) {
      found = Error(systemError("addresses of network " + name));
      return;
    }
    for (const ifaddrs* entry = list; entry != nullptr && !found; entry = entry->ifa_next) {
      if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != AF_INET ||
          (entry->ifa_flags & IFF_LOOPBACK) != 0 || (entry->ifa_flags & IFF_UP) == 0) {
        continue;
      }
      char text[INET_ADDRSTRLEN] = {};
      inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(entry->ifa_addr)->sin_addr, text,
                sizeof text);
      found = NetworkAddress{.address = text, .interface = entry->ifa_name};
    }
    freeifaddrs(list);
  }).join();
  if (found) return *std::move(found);
  return Error(Code::kUnavailable, "network " + name + ": no address");
}

}  // namespace dure::local
