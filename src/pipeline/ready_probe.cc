#include "pipeline/ready_probe.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <string_view>

#include <fmt/core.h>

#include "base/fd.h"

namespace dure::pipeline {
namespace {

constexpr int kConnectPatience = 200;  // ms
constexpr int kAnswerPatience = 700;
constexpr std::string_view kStatusLine = "HTTP/1.1 200";

bool waitFor(int fd, short events, int patience) {
  pollfd waiting{.fd = fd, .events = events, .revents = 0};
  return poll(&waiting, 1, patience) == 1;
}

}  // namespace

bool isReady(int port, const std::string& path) {
  const Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (!fd) return false;
  const int connecting =
      connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  if (connecting != 0 && errno != EINPROGRESS) return false;
  if (!waitFor(fd.get(), POLLOUT, kConnectPatience)) return false;
  int failed = 0;
  socklen_t size = sizeof failed;
  if (getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &failed, &size) != 0 || failed != 0) return false;
  if (path.empty()) return true;
  const std::string request =
      fmt::format("GET {} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nConnection: close\r\n\r\n", path, port);
  if (send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(request.size())) {
    return false;
  }
  std::string answer;
  while (answer.size() < kStatusLine.size()) {
    char block[256];
    if (!waitFor(fd.get(), POLLIN, kAnswerPatience)) return false;
    const ssize_t got = recv(fd.get(), block, sizeof block, 0);
    if (got <= 0) return false;
    answer.append(block, static_cast<std::size_t>(got));
  }
  // Also of servers that speak HTTP/1.0.
  return answer.starts_with("HTTP/1.") && answer.substr(8, 4) == kStatusLine.substr(8);
}

}  // namespace dure::pipeline
