#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "base/process.h"
#include "base/process_tree.h"
#include "base/test_process.h"

namespace dure {
namespace {

constexpr auto kPatience = std::chrono::seconds(20);

// A pipe whose reading end reaches its end when the last process that has the other is dead: that a
// process is gone can be seen so, whosever child it has become.
struct Lifeline {
  Lifeline() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) std::abort();
    in.reset(ends[0]);
    out.reset(ends[1]);
  }
  bool cut() {
    out.reset();
    pollfd wait{.fd = in.get(), .events = POLLIN, .revents = 0};
    const auto patience = std::chrono::milliseconds(kPatience).count();
    char byte = 0;
    return poll(&wait, 1, static_cast<int>(patience)) == 1 && read(in.get(), &byte, 1) == 0;
  }
  Fd in;
  Fd out;
};

bool eventually(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

[[noreturn]] void sleepForEver() {
  while (true) pause();
}

SpawnOptions sleeper(const Lifeline& line) {
  return {.argv = {"sleep", "1000"}, .env = {}, .out = line.out.get(), .death_signal = SIGKILL};
}

TEST(DeathSignal, EndsTheProgramWhenTheProcessThatStartedItIsKilled) {
  Lifeline line;
  int ready[2];
  ASSERT_EQ(pipe2(ready, O_CLOEXEC), 0);
  const pid_t middle = fork();
  if (middle == 0) {
    const auto pid = spawn(sleeper(line));
    const char told = pid ? 'y' : 'n';
    if (write(ready[1], &told, 1) != 1) _exit(1);
    sleepForEver();
  }
  const Fd in(ready[0]);
  close(ready[1]);
  char told = 0;
  ASSERT_EQ(read(in.get(), &told, 1), 1);
  EXPECT_EQ(told, 'y');
  kill(middle, SIGKILL);
  waitpid(middle, nullptr, 0);
  EXPECT_TRUE(line.cut());
}

TEST(DeathSignal, EndsTheProgramWhenTheThreadThatStartedItEnds) {
  Lifeline line;
  pid_t pid = 0;
  std::jthread([&] {
    const auto started = spawn(sleeper(line));
    ASSERT_TRUE(started);
    pid = *started;
  }).join();
  EXPECT_TRUE(line.cut());
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_EQ(decodeWaitStatus(status).signal, SIGKILL);
}

TEST(ProcessTree, ChildrenAreListedUntilTheyAreWaitedFor) {
  const auto code = inAProcessOfItsOwn([] {
    if (!childProcesses().empty()) return 1;
    const pid_t child = fork();
    if (child == 0) sleepForEver();
    if (childProcesses() != std::vector<pid_t>{child}) return 2;
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    return childProcesses().empty() ? 0 : 3;
  });
  EXPECT_EQ(code, 0);
}

TEST(ProcessTree, KillsWhatIsBelowInSessionsOfItsOwn) {
  Lifeline line;
  int ready[2];
  ASSERT_EQ(pipe2(ready, O_CLOEXEC), 0);
  const pid_t root = fork();
  if (root == 0) {
    // Three deep, each in a session of its own, each with a brother.
    for (int depth = 0; depth < 3; ++depth) {
      setsid();
      if (fork() == 0) sleepForEver();
      if (fork() != 0) sleepForEver();
    }
    if (write(ready[1], "y", 1) != 1) _exit(1);
    sleepForEver();
  }
  const Fd in(ready[0]);
  close(ready[1]);
  char told = 0;
  ASSERT_EQ(read(in.get(), &told, 1), 1);
  killTrees({root});
  waitpid(root, nullptr, 0);
  EXPECT_TRUE(line.cut());
}

TEST(ProcessTree, OrphansThatWentIntoTheBackgroundAreAdoptedAndKilled) {
  Lifeline line;
  const auto code = inAProcessOfItsOwn([&] {
    if (!adoptOrphans()) return 1;
    constexpr int kOrphans = 3;
    for (int i = 0; i < kOrphans; ++i) {
      const pid_t middle = fork();
      if (middle == 0) {
        // As daemons do it. The orphan has children too.
        setsid();
        if (fork() != 0) _exit(0);
        setsid();
        if (fork() == 0) sleepForEver();
        sleepForEver();
      }
      waitpid(middle, nullptr, 0);
    }
    if (!eventually([] { return childProcesses().size() == kOrphans; })) return 2;
    const bool all = eventually([] {
      killTrees(childProcesses());
      while (waitpid(-1, nullptr, WNOHANG) > 0) {
      }
      return childProcesses().empty();
    });
    return all ? 0 : 3;
  });
  EXPECT_EQ(code, 0);
  EXPECT_TRUE(line.cut());
}

TEST(ProcessTree, KillingNothingKillsNothing) {
  const auto code = inAProcessOfItsOwn([] {
    const pid_t child = fork();
    if (child == 0) sleepForEver();
    killTrees({});
    if (waitpid(child, nullptr, WNOHANG) != 0) return 1;
    killTrees({child});
    return waitpid(child, nullptr, 0) == child ? 0 : 2;
  });
  EXPECT_EQ(code, 0);
}

TEST(ProcessTree, ProcessesAreFoundByWhatTheirEnvironmentHas) {
  const std::string mark = "DURE_TEST_MARK=" + std::to_string(getpid());
  const auto marked = [&](std::string_view entry) { return entry == mark; };
  EXPECT_TRUE(processesWith(marked).empty());
  const auto child = spawn({.argv = {"sleep", "1000"}, .env = {"A=1", mark}});
  ASSERT_TRUE(child);
  EXPECT_EQ(processesWith(marked), std::vector<pid_t>{*child});
  EXPECT_EQ(describeProcesses({*child}), "process " + std::to_string(*child) + " (sleep)");
  EXPECT_TRUE(processesWith([&](std::string_view entry) { return entry == mark + "0"; }).empty());
  kill(*child, SIGKILL);
  waitpid(*child, nullptr, 0);
  EXPECT_TRUE(processesWith(marked).empty());
}

TEST(ProcessTree, NeitherThisProcessNorItsParentsAreFound) {
  for (const pid_t pid : processesWith([](std::string_view) { return true; })) {
    EXPECT_NE(pid, getpid());
    EXPECT_NE(pid, getppid());
  }
}

TEST(Purge, LooksLessAndLessOftenUntilSomethingHasDied) {
  Purge purge(std::chrono::hours(1));
  auto last = purge.strike({});
  EXPECT_LE(last, std::chrono::milliseconds(20));
  for (int i = 0; i < 10; ++i) {
    const auto next = purge.strike({});
    EXPECT_GE(next, last);
    last = next;
  }
  EXPECT_GE(last, std::chrono::milliseconds(500));
  EXPECT_LE(last, std::chrono::milliseconds(1000));
  purge.progress();
  EXPECT_LE(purge.strike({}), std::chrono::milliseconds(20));
  EXPECT_FALSE(purge.exhausted());
  EXPECT_TRUE(Purge(std::chrono::milliseconds(0)).exhausted());
}

}  // namespace
}  // namespace dure
