#pragma once

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/fd.h"

namespace dure::kube {

// An HTTP server on loopback that says what a test tells it to, word for word. Every connection is
// answered in a thread of its own.
class TestServer {
 public:
  struct Asked {
    std::string method;
    std::string target;
    std::string headers;
    std::string body;
  };
  // Gets the request, and a function that sends bytes; the connection is closed when it returns
  // false. Sending tells whether the client is still there.
  using Send = std::function<bool(const std::string&)>;
  using Handler = std::function<bool(const Asked&, const Send&)>;

  explicit TestServer(Handler handler) : handler_(std::move(handler)) {
    listener_.reset(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof(address);
    static_cast<void>(bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), length));
    getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &length);
    listen(listener_.get(), 16);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { accept(); });
  }
  ~TestServer() {
    shutdown(listener_.get(), SHUT_RDWR);
    thread_.join();
    {
      const std::lock_guard lock(mutex_);
      for (const int fd : open_) shutdown(fd, SHUT_RDWR);
    }
    for (std::thread& thread : threads_) thread.join();
  }

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  std::vector<Asked> asked() const {
    const std::lock_guard lock(mutex_);
    return asked_;
  }

  static std::string answer(int status, const std::string& body, const std::string& headers = "") {
    return "HTTP/1.1 " + std::to_string(status) +
           " X\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" + headers + "\r\n" +
           body;
  }

 private:
  void accept() {
    while (true) {
      const int fd = ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) return;
      const int on = 1;  // so that a short message does not wait for the one before it
      setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
      const std::lock_guard lock(mutex_);
      open_.push_back(fd);
      threads_.emplace_back([this, fd] { serve(fd); });
    }
  }

  void serve(int fd) {
    std::string buffer;
    while (true) {
      const auto end = buffer.find("\r\n\r\n");
      std::size_t length = 0;
      if (end != std::string::npos) {
        const auto at = buffer.find("Content-Length: ");
        if (at < end) length = std::stoul(buffer.substr(at + 16));
      }
      if (end == std::string::npos || buffer.size() < end + 4 + length) {
        char bytes[4096];
        const ssize_t got = recv(fd, bytes, sizeof(bytes), 0);
        if (got <= 0) break;
        buffer.append(bytes, static_cast<std::size_t>(got));
        continue;
      }
      const std::string line = buffer.substr(0, buffer.find("\r\n"));
      const auto first = line.find(' '), second = line.rfind(' ');
      const Asked asked{line.substr(0, first), line.substr(first + 1, second - first - 1),
                        buffer.substr(0, end), buffer.substr(end + 4, length)};
      buffer.erase(0, end + 4 + length);
      {
        const std::lock_guard lock(mutex_);
        asked_.push_back(asked);
      }
      const Send send = [fd](const std::string& bytes) {
        char byte = 0;
        if (recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0) return false;
        return ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) >= 0;
      };
      if (!handler_(asked, send)) break;
    }
    // What the client is still sending must not keep it from reading what it was answered.
    shutdown(fd, SHUT_WR);
    const timeval patience{.tv_sec = 1, .tv_usec = 0};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    for (char bytes[4096]; recv(fd, bytes, sizeof(bytes), 0) > 0;) continue;
    const std::lock_guard lock(mutex_);
    std::erase(open_, fd);
    close(fd);
  }

  const Handler handler_;
  Fd listener_;
  int port_ = 0;
  std::thread thread_;
  mutable std::mutex mutex_;
  std::vector<int> open_;             // guarded by mutex_
  std::vector<std::thread> threads_;  // guarded by mutex_
  std::vector<Asked> asked_;          // guarded by mutex_
};

}  // namespace dure::kube
