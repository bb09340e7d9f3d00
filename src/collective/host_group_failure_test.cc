#include <gtest/gtest.h>
#include <signal.h>

#include "collective/test_members.h"

namespace dure::collective {
namespace {

using SteadyClock = std::chrono::steady_clock;
using std::chrono::milliseconds;

Status reduceOnce(HostGroup& group, std::size_t count = 100'000) {
  std::vector<float> data(count, 1.0F);
  return group.allReduce(std::as_writable_bytes(std::span(data)), Number::kFloat32,
                         Reduction::kSum);
}

// All-reduces until that fails; 0 if it fails with the sentence, and soon.
int reduceUntilFailure(HostGroup& group, const std::string& sentence) {
  while (true) {
    const auto began = SteadyClock::now();
    const Status status = reduceOnce(group);
    if (status) continue;
    if (status.error().message() != sentence) return 2;
    if (SteadyClock::now() - began > milliseconds(2000)) return 3;
    // It stays failed, with the same words.
    return reduceOnce(group).error().message() == sentence ? 0 : 4;
  }
}

void killOneAmidAllReduces(int members, int victim, bool with_child) {
  const std::string key = freshKey();
  const std::string sentence = "rank " + std::to_string(victim) + " is gone";
  std::vector<pid_t> processes;
  for (int member = 0; member < members; ++member) {
    processes.push_back(forkProcess([&] {
      auto group = HostGroup::join(optionsFor(key, member, members));
      if (!group) return 98;
      if (member != victim) return reduceUntilFailure(**group, sentence);
      for (int turn = 0; turn < 50; ++turn) (void)reduceOnce(**group);
      // A child, as of a data loader, holds all descriptors of its parent open after its death.
      if (with_child && fork() == 0) {
        std::this_thread::sleep_for(milliseconds(5000));
        _exit(0);
      }
      raise(SIGKILL);
      return 97;
    }));
  }
  for (int member = 0; member < members; ++member) {
    const auto status = waitForProcess(processes[static_cast<std::size_t>(member)]);
    EXPECT_EQ(describeExit(status), member == victim ? "was killed by SIGKILL" : "exited with 0");
  }
}

TEST(HostGroupFailure, AKilledMemberFailsTheOthers) {
  killOneAmidAllReduces(2, 1, false);
  killOneAmidAllReduces(2, 0, false);
  killOneAmidAllReduces(4, 2, false);
}

TEST(HostGroupFailure, AlsoIfAChildOfItLives) { killOneAmidAllReduces(3, 1, true); }

TEST(HostGroupFailure, AStoppedMemberIsWaitedFor) {
  const std::string key = freshKey();
  std::vector<pid_t> processes;
  for (int member = 0; member < 2; ++member) {
    processes.push_back(forkProcess([&] {
      auto group = HostGroup::join(optionsFor(key, member, 2));
      if (!group) return 98;
      if (member == 1) raise(SIGSTOP);
      for (int turn = 0; turn < 20; ++turn) {
        if (!reduceOnce(**group)) return 1;
      }
      return 0;
    }));
  }
  int status = 0;
  waitpid(processes[1], &status, WUNTRACED);
  ASSERT_TRUE(WIFSTOPPED(status));
  std::this_thread::sleep_for(milliseconds(300));
  kill(processes[1], SIGCONT);
  for (const pid_t pid : processes) EXPECT_EQ(describeExit(waitForProcess(pid)), "exited with 0");
}

TEST(HostGroupFailure, OneThatLeavesFailsTheOthersAtOnce) {
  runAsThreads(3, [](HostGroup& group) {
    if (group.member() == 1) return;
    const auto began = SteadyClock::now();
    const Status status = reduceOnce(group);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code(), Code::kUnavailable);
    EXPECT_EQ(status.error().message(), "rank 1 is gone");
    EXPECT_LT(SteadyClock::now() - began, milliseconds(1000));
  });
}

TEST(HostGroupFailure, LeavingAfterTheLastOperationFailsNobody) {
  for (int turn = 0; turn < 20; ++turn) {
    runAsThreads(3, [](HostGroup& group) { EXPECT_TRUE(reduceOnce(group, 200'000)); });
  }
}

TEST(HostGroupFailure, TheReasonOfOneReachesTheOthers) {
  runAsThreads(3, [](HostGroup& group) {
    if (group.member() == 0) {
      group.fail(Error(Code::kUnavailable, "host B is gone"));
      EXPECT_FALSE(reduceOnce(group));
      // The others have time to see it before this one has left.
      std::this_thread::sleep_for(milliseconds(200));
      return;
    }
    const Status status = reduceOnce(group);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().message(), "host B is gone");
  });
}

TEST(HostGroupFailure, OneThatDoesNotComeIsWaitedForAsLongAsWasAsked) {
  const std::string key = freshKey();
  std::vector<std::jthread> threads;
  for (int member = 0; member < 2; ++member) {
    threads.emplace_back([&, member] {
      auto options = optionsFor(key, member, 2);
      options.wait = Duration(400);
      auto group = HostGroup::join(options);
      ASSERT_TRUE(group);
      if (member == 1) {
        std::this_thread::sleep_for(milliseconds(900));
        return;
      }
      const Status status = reduceOnce(**group);
      ASSERT_FALSE(status);
      EXPECT_EQ(status.error().message(), "timed out after 0.4 s waiting for rank 1");
    });
  }
}

TEST(HostGroupFailure, LongWaitsDoNotMakeTheRendezvousLong) {
  auto options = optionsFor(freshKey(), 0, 2, Duration(300));
  options.wait = std::chrono::hours(24);
  const auto began = SteadyClock::now();
  const auto group = HostGroup::join(options);
  ASSERT_FALSE(group);
  EXPECT_EQ(group.error().code(), Code::kUnavailable);
  EXPECT_LT(SteadyClock::now() - began, milliseconds(5000));
}

}  // namespace
}  // namespace dure::collective
