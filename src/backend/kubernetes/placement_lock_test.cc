#include "backend/kubernetes/placement_lock.h"

#include <future>

#include "backend/kubernetes/test_cluster.h"

namespace dure::kubernetes {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

const kube::RequestMatch kTaking{.verb = "create", .plural = "leases"};
constexpr auto kLong = 1h;

class PlacementLockTest : public ClusterTest {
 protected:
  PlacementLock lockOf(const std::string& holder, LockTimes times = {}) {
    return {client_, kPlacementNamespace, holder, times};
  }
  std::string holder() { return api_.get(kLease).value("/spec/holderIdentity"_json_pointer, ""); }
  void hold(const std::string& holder) {
    api_.put(kLease, {{"apiVersion", "coordination.k8s.io/v1"},
                      {"kind", "Lease"},
                      {"spec", {{"holderIdentity", holder}}}});
  }
  static void nobodyWaits(const std::string& holder) { ADD_FAILURE() << "waits for " << holder; }

  std::stop_source stop_;
};

TEST_F(PlacementLockTest, IsHeldUntilItIsReleased) {
  {
    PlacementLock lock = lockOf("team/train-1");
    ASSERT_TRUE(lock.acquire(stop_.get_token(), nobodyWaits));
    EXPECT_EQ(holder(), "team/train-1");
    lock.release();
    EXPECT_FALSE(api_.has(kLease));
    ASSERT_TRUE(lock.acquire(stop_.get_token(), nobodyWaits));
  }
  EXPECT_FALSE(api_.has(kLease)) << "a manager that ends must not leave it locked";
}

TEST_F(PlacementLockTest, WhoWaitsIsToldForWhomAndGetsItNext) {
  hold("team/other-1");
  std::atomic<bool> told = false;
  auto waiting = std::async(std::launch::async, [&] {
    PlacementLock lock = lockOf("team/train-1", {.look = 1ms, .usual = 1ms, .longest = kLong});
    const auto taken = lock.acquire(stop_.get_token(), [&](const std::string& other) {
      EXPECT_EQ(other, "team/other-1");
      EXPECT_FALSE(told.exchange(true)) << "it is said once";
    });
    return taken && holder() == "team/train-1";
  });
  ASSERT_TRUE(api_.eventually([&] { return told.load(); }));
  api_.erase(kLease);
  EXPECT_TRUE(waiting.get());
}

TEST_F(PlacementLockTest, AHolderThatDiedDoesNotLockTheClusterForGood) {
  hold("team/dead-1");
  PlacementLock lock = lockOf("team/train-1", {.look = 1ms, .usual = 1ms, .longest = 50ms});
  ASSERT_TRUE(lock.acquire(stop_.get_token(), [](const std::string&) {}));
  EXPECT_EQ(holder(), "team/train-1");
}

TEST_F(PlacementLockTest, WhoTookItWhileADeadHoldersWasBeingBrokenKeepsIt) {
  hold("team/dead-1");
  api_.hold({.verb = "delete", .plural = "leases"});
  auto waiting = std::async(std::launch::async, [&] {
    return lockOf("team/train-1", {.look = 1ms, .usual = 1ms, .longest = 50ms})
        .acquire(stop_.get_token(), [](const std::string&) {});
  });
  ASSERT_TRUE(api_.eventually([&] { return api_.held() == 1; }));
  api_.erase(kLease);
  hold("team/other-1");
  stop_.request_stop();
  api_.letGo();
  EXPECT_FALSE(waiting.get());
  EXPECT_EQ(holder(), "team/other-1");
}

TEST_F(PlacementLockTest, ALeaseOfSomebodyElseIsNotReleased) {
  PlacementLock lock = lockOf("team/train-1");
  ASSERT_TRUE(lock.acquire(stop_.get_token(), nobodyWaits));
  // It took too long, and another one has broken the lock and taken it.
  api_.erase(kLease);
  hold("team/other-1");
  lock.release();
  EXPECT_EQ(holder(), "team/other-1");
}

TEST_F(PlacementLockTest, OneThatWasTakenWithoutAReplyIsFoundToBeOurs) {
  PlacementLock lock = lockOf("team/train-1");
  api_.loseReply(kTaking);
  const auto lost = lock.acquire(stop_.get_token(), nobodyWaits);
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().code(), Code::kUnavailable);
  ASSERT_TRUE(lock.acquire(stop_.get_token(), nobodyWaits));
  lock.release();
  EXPECT_FALSE(api_.has(kLease));
}

TEST_F(PlacementLockTest, SaysWhyItCannotBeTaken) {
  struct Case {
    int status;
    Code code;
  };
  for (const Case& c :
       {Case{403, Code::kDenied}, Case{500, Code::kUnavailable}, Case{409, Code::kConflict}}) {
    PlacementLock lock = lockOf("team/train-1");
    api_.answer(kTaking, c.status);
    const auto taken = lock.acquire(stop_.get_token(), nobodyWaits);
    ASSERT_FALSE(taken) << c.status;
    EXPECT_EQ(taken.error().code(), c.code) << c.status;
    EXPECT_FALSE(api_.has(kLease)) << c.status;
  }
}

TEST_F(PlacementLockTest, ABusyServerIsAskedAgain) {
  PlacementLock lock = lockOf("team/train-1");
  api_.answer(kTaking, 429);
  EXPECT_TRUE(lock.acquire(stop_.get_token(), nobodyWaits));
  EXPECT_EQ(api_.count(kTaking), 2);
}

TEST_F(PlacementLockTest, AManagerThatIsToldToEndStopsWaitingAtOnce) {
  hold("team/other-1");
  auto waiting = std::async(std::launch::async, [&] {
    return lockOf("team/train-1", {.look = kLong}).acquire(stop_.get_token(), nobodyWaits);
  });
  ASSERT_TRUE(api_.eventually([&] { return api_.count({.verb = "get", .plural = "leases"}) > 0; }));
  stop_.request_stop();
  ASSERT_EQ(waiting.wait_for(20s), std::future_status::ready);
  EXPECT_FALSE(waiting.get());
  EXPECT_EQ(holder(), "team/other-1");
}

}  // namespace
}  // namespace dure::kubernetes
