#include "backend/local/ports.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>

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

}  // namespace

Result<PortRange> findPorts(const std::string& directory, const std::string& name, int count,
                            bool reserve) {
  if (reserve) {
    if (auto made = makeDirectories(directory); !made) return std::move(made).error();
  }
  const int blocks = (count + kBlock - 1) / kBlock;
  const int begin = static_cast<int>(hash(name) % kBlocks);
  for (int step = 0; step < kBlocks; ++step) {
    const int block = (begin + step) % kBlocks;
    if (block + blocks > kBlocks) continue;
    PortRange range{.first = kFirstPort + block * kBlock, .locks = {}};
    bool usable = true;
    for (int i = 0; usable && i < blocks; ++i) {
      const std::string path = fmt::format("{}/{}", directory, range.first + i * kBlock);
      if (!reserve) {
        usable = !FileLock::holder(path);
        continue;
      }
      auto lock = FileLock::acquire(path);
      usable = static_cast<bool>(lock);
      if (lock) range.locks.push_back(*std::move(lock));
    }
    for (int i = 0; usable && i < count; ++i) usable = isFree(range.first + i);
    if (usable) return range;
  }
  return Error(Code::kUnavailable, fmt::format("no {} free ports in a row between {} and {}", count,
                                               kFirstPort, kEndPort));
}

}  // namespace dure::local
