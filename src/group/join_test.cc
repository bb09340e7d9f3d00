#include "group/join.h"

#include <gtest/gtest.h>
#include <signal.h>

#include "collective/test_members.h"
#include "group/group.h"
#include "group/host_identity.h"
#include "group/store_options.h"
#include "group/test_ranks.h"

namespace dure::group {
namespace {

using SteadyClock = std::chrono::steady_clock;

GroupOptions optionsAt(std::uint16_t port, int rank, int size,
                       Duration timeout = Duration(20'000)) {
  return {.address = "127.0.0.1",
          .port = port,
          .rank = rank,
          .size = size,
          .key = "this run",
          .timeout = timeout};
}

TEST(Join, RanksAsProcesses) {
  const std::uint16_t port = freePort();
  std::vector<pid_t> processes;
  for (int rank = 0; rank < 4; ++rank) {
    processes.push_back(collective::forkProcess([&] {
      // Rank 0 comes last: the others wait for it.
      if (rank == 0) std::this_thread::sleep_for(std::chrono::milliseconds(200));
      auto group = joinGroup(optionsAt(port, rank, 4));
      if (!group) return 1;
      std::vector<float> data(100'000, static_cast<float>(rank));
      if (!(*group)->allReduce(data) || data.back() != 6.0F) return 2;
      return (*group)->hosts() == 1 && (*group)->traffic().network_bytes == 0 ? 0 : 3;
    }));
  }
  for (const pid_t pid : processes)
    EXPECT_EQ(describeExit(collective::waitForProcess(pid)), "exited with 0");
}

TEST(Join, AKilledRankFailsThoseOfOtherHostsToo) {
  const std::uint16_t port = freePort();
  std::vector<pid_t> processes;
  for (int rank = 0; rank < 4; ++rank) {
    processes.push_back(collective::forkProcess([&] {
      const auto options = storeOptions(port, rank);
      if (rank != 0) std::this_thread::sleep_for(std::chrono::milliseconds(300));
      auto group =
          joinThroughStore({.store = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options),
                            .rank = rank,
                            .size = 4,
                            .address = "127.0.0.1",
                            .host = rank < 2 ? "a" : "b",
                            .timeout = Duration(60'000)});
      if (!group) return 1;
      for (int turn = 0; true; ++turn) {
        if (rank == 3 && turn == 20) raise(SIGKILL);
        std::vector<float> data(50'000, 1.0F);
        const auto began = SteadyClock::now();
        const Status status = (*group)->allReduce(data, 0);
        if (status) continue;
        if (SteadyClock::now() - began > std::chrono::seconds(3)) return 2;
        if (status.error().code() != Code::kUnavailable) return 3;
        if (rank == 2 && status.error().message() != "rank 3 is gone") return 4;
        return 0;
      }
    }));
  }
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(describeExit(collective::waitForProcess(processes[static_cast<std::size_t>(rank)])),
              rank == 3 ? "was killed by SIGKILL" : "exited with 0")
        << rank;
  }
}

TEST(Join, WhoDoesNotComeIsNamed) {
  auto first = joinGroup(optionsAt(freePort(), 0, 2, Duration(300)));
  ASSERT_FALSE(first);
  EXPECT_EQ(first.error().code(), Code::kUnavailable);
  EXPECT_EQ(first.error().message(), "join the group: timed out after 0.3 s waiting for rank 1");
  const std::uint16_t port = freePort();
  auto second = joinGroup(optionsAt(port, 1, 2, Duration(300)));
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().message(),
            "join the group: timed out after 0.3 s waiting for rank 0 at 127.0.0.1:" +
                std::to_string(port));
}

// Once all have come, one may take longer than the joining was given.
TEST(Join, LaterWaitsHaveATimeOfTheirOwn) {
  for (const std::string hosts : {"aa", "ab"}) {
    const std::uint16_t port = freePort();
    std::vector<pid_t> processes;
    for (int rank = 0; rank < 2; ++rank) {
      processes.push_back(collective::forkProcess([&] {
        const auto options = storeOptions(port, rank);
        auto group =
            joinThroughStore({.store = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options),
                              .rank = rank,
                              .size = 2,
                              .address = "127.0.0.1",
                              .host = hosts.substr(static_cast<std::size_t>(rank), 1),
                              .timeout = Duration(2'000),
                              .wait = Duration(20'000)});
        if (!group) return 1;
        if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(2'500));
        std::vector<float> data(1'000, 1.0F);
        return (*group)->allReduce(data, 0) && data[0] == 2.0F ? 0 : 2;
      }));
    }
    for (const pid_t pid : processes)
      EXPECT_EQ(describeExit(collective::waitForProcess(pid)), "exited with 0") << hosts;
  }
}

TEST(Join, WhatIsLeftOfAnotherRunIsNotJoined) {
  c10d::TCPStoreOptions options;
  options.port = 0;
  options.isServer = true;
  options.waitWorkers = false;
  auto old = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
  const std::uint16_t port = old->getPort();
  old->set("dure/key", std::vector<std::uint8_t>{'o', 'l', 'd'});
  std::jthread second([&] {
    auto group = joinGroup(optionsAt(port, 1, 2));
    ASSERT_TRUE(group) << group.error().message();
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  auto early = joinGroup(optionsAt(port, 0, 2));
  ASSERT_FALSE(early);  // the port is taken
  EXPECT_NE(early.error().message().find("wait for the others at port"), std::string::npos);
  old.reset();
  auto group = joinGroup(optionsAt(port, 0, 2));
  ASSERT_TRUE(group) << group.error().message();
}

TEST(Join, SizesMustAgree) {
  const std::uint16_t port = freePort();
  std::jthread second([&] {
    auto group = joinGroup(optionsAt(port, 1, 3, Duration(5000)));
    ASSERT_FALSE(group);
    EXPECT_EQ(group.error().message(),
              "join the group: rank 1 says that the group has 3 members, rank 0 says 2");
  });
  EXPECT_FALSE(joinGroup(optionsAt(port, 0, 2, Duration(1000))));
}

TEST(Join, TheAddressThatLeadsThere) {
  EXPECT_EQ(localAddressTowards("127.0.0.1"), "127.0.0.1");
  EXPECT_TRUE(isLoopback(localAddressTowards("localhost")));
  EXPECT_EQ(localAddressTowards("no-such-name.invalid"), "");
  EXPECT_FALSE(isLoopback("10.0.0.1"));
  EXPECT_EQ(*hostIdentity(), *hostIdentity());
}

}  // namespace
}  // namespace dure::group
