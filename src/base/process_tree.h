#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace dure {

// From now on orphaned descendants become children of this process instead of init's.
Status adoptOrphans();

// The children of this process, adopted ones included.
std::vector<pid_t> childProcesses();

// Sends SIGKILL to `roots` and to everything below them. Their children may appear as children of
// this process afterwards: call again until childProcesses() has none of them.
void killTrees(const std::vector<pid_t>& roots);

// The processes whose environment, as they were started with it, has an entry ("KEY=VALUE") that
// `matches`. Neither this process nor one it descends from, nor any whose environment belongs to
// another person.
std::vector<pid_t> processesWith(const std::function<bool(std::string_view entry)>& matches);

// "4711 (sleep)".
std::string describeProcess(pid_t pid);
std::string describeProcesses(const std::vector<pid_t>& pids);

// Kills processes again and again, at first often and then seldom, and knows when to give up: one
// that hangs in the kernel does not die, and one that became another user cannot be killed.
class Purge {
 public:
  explicit Purge(std::chrono::milliseconds patience);
  // Kills `roots` and everything below them, and returns when to look whether they are gone.
  std::chrono::milliseconds strike(const std::vector<pid_t>& roots);
  // Some of them have died: what is left is looked at soon again.
  void progress();
  bool exhausted() const;

 private:
  const std::chrono::steady_clock::time_point give_up_;
  std::chrono::milliseconds wait_;
};

}  // namespace dure
