#include "backend/local/ports.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include <fmt/core.h>

namespace dure::local {
namespace {

// Below the range from which the system itself gives out ports, reserved in blocks.
constexpr int kFirstPort = 20'000;
constexpr int kEndPort = 32'000;
constexpr int kBlock = 16;
constexpr int kBlocks = (kEndPort - kFirstPort) / kBlock;

std::uint32_t hash(const std::string& text) {
  std::uint32_t value = 2166136261u;
  for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 16777619u;
  return value;
}

bool isFree(int port) {
  const Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  return bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

// Who reserves a block has an abstract Unix socket of this name: one per network namespace, as
// ports are, whichever user asks, and gone with its process. A lock file would be one user's.
struct BlockName {
  explicit BlockName(int first_port) {
    const std::string name = fmt::format("dure-ports-{}", first_port);
    std::memcpy(address.sun_path + 1, name.data(), name.size());
    size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  socklen_t size = 0;
};

bool isReserved(int first_port) {
  const BlockName name(first_port);
  const Fd fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  return connect(fd.get(), name.get(), name.size) == 0;
}

// Invalid if somebody else has it.
Fd reserveBlock(int first_port) {
  const BlockName name(first_port);
  Fd fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  return bind(fd.get(), name.get(), name.size) == 0 ? std::move(fd) : Fd();
}

}  // namespace

Result<PortRange> findPorts(const std::string& name, int count, bool reserve) {
  const int blocks = (count + kBlock - 1) / kBlock;
  const int begin = static_cast<int>(hash(name) % kBlocks);
  for (int step = 0; step < kBlocks; ++step) {
    const int block = (begin + step) % kBlocks;
    if (block + blocks > kBlocks) continue;
    PortRange range{.first = kFirstPort + block * kBlock, .reservations = {}};
    bool usable = true;
    for (int i = 0; usable && i < blocks; ++i) {
      const int first = range.first + i * kBlock;
      if (!reserve) {
        usable = !isReserved(first);
        continue;
      }
      range.reservations.push_back(reserveBlock(first));
      usable = static_cast<bool>(range.reservations.back());
    }
    for (int i = 0; usable && i < count; ++i) usable = isFree(range.first + i);
    if (usable) return range;
  }
  return Error(Code::kUnavailable, fmt::format("no {} free ports in a row between {} and {}", count,
                                               kFirstPort, kEndPort));
}

}  // namespace dure::local
