#include "agent/lease.h"

#include <gtest/gtest.h>

#include <atomic>

namespace dure::agent {
namespace {

using namespace std::chrono_literals;

bool within(std::chrono::milliseconds time, const std::atomic<bool>& condition) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (!condition && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  return condition;
}

TEST(LeaseTest, RunsOutWhateverItsOwnerDoes) {
  std::atomic<bool> expired{false};
  const auto began = BootClock::now();
  const Lease lease(100ms, [&] { expired = true; });
  ASSERT_TRUE(within(10s, expired));
  EXPECT_GE(BootClock::now() - began, 100ms);
}

TEST(LeaseTest, CountsFromWhenTheCoordinatorWasThere) {
  std::atomic<bool> expired{false};
  Lease lease(1h, [&] { expired = true; });
  lease.renew(BootClock::now() - 2h);
  EXPECT_FALSE(within(50ms, expired)) << "an old answer does not shorten it";
  lease.renew(BootClock::now());
  EXPECT_FALSE(within(50ms, expired));
}

TEST(LeaseTest, WhatHasRunOutStaysSo) {
  std::atomic<bool> expired{false};
  Lease lease(1ms, [&] { expired = true; });
  const auto began = BootClock::now();
  while (BootClock::now() - began < 5ms) {
  }
  lease.renew(BootClock::now());
  EXPECT_TRUE(within(10s, expired));
}

TEST(LeaseTest, EndsWithItsOwner) {
  std::atomic<bool> expired{false};
  {
    const Lease lease(1h, [&] { expired = true; });
  }
  EXPECT_FALSE(expired);
}

}  // namespace
}  // namespace dure::agent
