#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "base/process.h"
#include "collective/host_group.h"

// For tests: members of a host as threads of the test, or as processes.
namespace dure::collective {

inline std::string freshKey() {
  static std::atomic<int> count{0};
  return "test " + std::to_string(getpid()) + " " + std::to_string(count++);
}

inline HostGroupOptions optionsFor(const std::string& key, int member, int members,
                                   Duration timeout = Duration(20'000)) {
  HostGroupOptions options{.key = key, .member = member, .timeout = timeout};
  options.ranks.resize(static_cast<std::size_t>(members));
  std::iota(options.ranks.begin(), options.ranks.end(), 0);
  return options;
}

using MemberBody = std::function<void(HostGroup& group)>;

inline void runAsThreads(int members, const MemberBody& body,
                         std::size_t slot_bytes = 128u << 10u) {
  const std::string key = freshKey();
  std::vector<std::jthread> threads;
  for (int member = 0; member < members; ++member) {
    threads.emplace_back([&, member] {
      auto options = optionsFor(key, member, members);
      options.slot_bytes = slot_bytes;
      auto group = HostGroup::join(options);
      ASSERT_TRUE(group) << group.error().message();
      body(**group);
    });
  }
}

// Over one mapping, so that a thread sanitizer sees both ends of every access.
inline void runOverOneMapping(int members, const MemberBody& body) {
  constexpr std::size_t kSlot = 64u << 10u;
  auto memory = SharedMemory::create(members, kSlot);
  ASSERT_TRUE(memory);
  auto mapped = SharedMemory::map(*memory, members, kSlot);
  ASSERT_TRUE(mapped);
  std::vector<std::jthread> threads;
  for (int member = 0; member < members; ++member) {
    threads.emplace_back([&, member] {
      auto group = HostGroup::joinInside(*mapped, optionsFor("", member, members));
      ASSERT_TRUE(group) << group.error().message();
      body(**group);
    });
  }
}

// A process that runs `body` and ends with what it returns, without the test's own end.
inline pid_t forkProcess(const std::function<int()>& body) {
  const pid_t pid = fork();
  if (pid == 0) _exit(body());
  return pid;
}

inline ExitStatus waitForProcess(pid_t pid) {
  int status = 0;
  waitpid(pid, &status, 0);
  return decodeWaitStatus(status);
}

// Each body as a process: 0 of it means success.
inline void runAsProcesses(int members, const std::function<int(HostGroup& group)>& body) {
  const std::string key = freshKey();
  std::vector<pid_t> processes;
  for (int member = 0; member < members; ++member) {
    processes.push_back(forkProcess([&] {
      auto group = HostGroup::join(optionsFor(key, member, members));
      return group ? body(**group) : 99;
    }));
  }
  for (const pid_t pid : processes) EXPECT_EQ(describeExit(waitForProcess(pid)), "exited with 0");
}

}  // namespace dure::collective
