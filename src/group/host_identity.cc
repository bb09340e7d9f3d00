#include "group/host_identity.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/core.h>

#include "base/fd.h"
#include "base/files.h"

namespace dure::group {
namespace {

Result<std::uint64_t> namespaceOf(const char* path) {
  struct stat info {};
  if (stat(path, &info) != 0) return systemError(path);
  return static_cast<std::uint64_t>(info.st_ino);
}

}  // namespace

Result<std::string> hostIdentity() {
  auto boot = readFile("/proc/sys/kernel/random/boot_id", 4096);
  if (!boot) return std::move(boot).error();
  const auto network = namespaceOf("/proc/self/ns/net");
  if (!network) return network.error();
  const auto processes = namespaceOf("/proc/self/ns/pid");
  if (!processes) return processes.error();
  while (!boot->empty() && boot->back() == '\n') boot->pop_back();
  return fmt::format("{} net {} pid {} user {}", *boot, *network, *processes, geteuid());
}

std::string localAddressTowards(const std::string& address) {
  const addrinfo hints{.ai_family = AF_UNSPEC, .ai_socktype = SOCK_DGRAM};
  addrinfo* found = nullptr;
  // Any port: nothing is sent, the system only chooses the way.
  if (address.empty() || getaddrinfo(address.c_str(), "9", &hints, &found) != 0) return "";
  std::string result;
  for (const addrinfo* one = found; one && result.empty(); one = one->ai_next) {
    const Fd fd(socket(one->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (!fd || connect(fd.get(), one->ai_addr, one->ai_addrlen) != 0) continue;
    sockaddr_storage mine{};
    socklen_t size = sizeof mine;
    char text[NI_MAXHOST];
    if (getsockname(fd.get(), reinterpret_cast<sockaddr*>(&mine), &size) == 0 &&
        getnameinfo(reinterpret_cast<sockaddr*>(&mine), size, text, sizeof text, nullptr, 0,
                    NI_NUMERICHOST) == 0) {
      result = text;
    }
  }
  freeaddrinfo(found);
  return result;
}

bool isLoopback(const std::string& address) {
  return address == "::1" || address.starts_with("127.");
}

}  // namespace dure::group
