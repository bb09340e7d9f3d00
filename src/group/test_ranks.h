#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "group/join.h"

// For tests: ranks as threads, on hosts that are only called so.
namespace dure::group {

inline std::uint16_t freePort() {
  const Fd fd(socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{.sin_family = AF_INET};
  socklen_t size = sizeof address;
  bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size);
  getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.sin_port);
}

// The letters are the ranks' hosts: "aab" is two ranks on one host and a third on another.
inline void runOnHosts(const std::string& hosts, Compression compression,
                       const std::function<void(TwoLevelGroup& group)>& body) {
  c10d::TCPStoreOptions options;
  options.port = 0;
  options.isServer = true;
  options.waitWorkers = false;
  const auto server = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
  options.port = server->getPort();
  options.isServer = false;
  std::vector<std::jthread> threads;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    threads.emplace_back([&, rank] {
      auto group = joinThroughStore({
          .store = c10::make_intrusive<c10d::PrefixStore>(
              "test", c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options)),
          .rank = static_cast<int>(rank),
          .size = static_cast<int>(hosts.size()),
          .address = "127.0.0.1",
          .host = hosts.substr(rank, 1),
          .compression = compression,
          .timeout = Duration(20'000),
      });
      ASSERT_TRUE(group) << group.error().message();
      body(**group);
      // Nobody leaves while others may still look at what they got.
      (void)(*group)->barrier();
    });
  }
}

}  // namespace dure::group
