#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>

#include "net/asio.h"
#include "serve/web_server.h"

namespace dure::serve {

// What the connections of one server share. It outlives them.
struct SessionShared {
  const WebOptions& options;
  Service& service;
  Metrics& metrics;
  AccessLog* log;
  asio::ssl::context* tls;                // null: plain
  std::atomic<std::int64_t> buffered{0};  // bytes of bodies that are in memory
  std::atomic<bool> stopping{false};
};

// One connection. Everything but the reply of a batcher's thread, which is posted to it, happens in
// the thread of its loop.
class Session {
 public:
  using Clock = std::chrono::steady_clock;
  virtual ~Session() = default;

  // Reads, answers, writes, until the connection ends; `ended` is told then, once.
  virtual void start(std::function<void()> ended) = 0;
  // Ends what takes too long.
  virtual void checkTime(Clock::time_point now) = 0;
  // Closes if no request is under way, else after its reply.
  virtual void finish() = 0;
  virtual void close() = 0;
};

std::shared_ptr<Session> makeSession(asio::ip::tcp::socket socket, SessionShared& shared);

}  // namespace dure::serve
