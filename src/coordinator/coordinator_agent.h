#pragma once

#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <string>

#include "coordinator/coordinator.h"
#include "protocol/protocol.h"

namespace dure::coordinator {

// A connection, and after Hello the task at its other end.
struct Coordinator::Agent {
  std::shared_ptr<net::Connection> connection;
  std::unique_ptr<asio::steady_timer> patience;
  std::chrono::steady_clock::time_point since;  // when it was accepted
  std::string task;                             // empty until greeted
  int generation = 0;
  std::string host;
  int pid = 0;
  std::size_t folder_sent = 0;
  bool joined = false;
  bool finished = false;
  bool gone = false;  // says the backend; what it sent is still being read

  template <typename Message>
  void send(protocol::MessageType type, const Message& message) {
    connection->send(protocol::raw(type), protocol::encode(message));
  }
};

}  // namespace dure::coordinator
