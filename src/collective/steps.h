#pragma once

#include <poll.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/result.h"
#include "collective/shared_memory.h"

namespace dure::collective {

// How the members of a host keep in step: each counts what it has done, and waits for the others'
// counts. Used by one thread of each member.
class Steps {
 public:
  // `names` are the members' ranks as people know them.
  Steps(std::shared_ptr<SharedMemory> memory, int member, std::vector<int> names, Duration timeout);
  // The others learn that this member has left, unless it is a fork of that member that ends.
  ~Steps();
  Steps(const Steps&) = delete;
  Steps& operator=(const Steps&) = delete;

  // A descriptor that becomes readable, or hangs up, when `member` ends.
  void watch(int member, Fd fd);
  // Opens such descriptors for all, and learns whether there is a processor for each member. All
  // have done a step before, which is how their processes are known.
  void meet();

  // Tells the others that this member has done all up to `step`.
  void post(std::uint32_t step);
  // Returns when all members have posted `step`. Unavailable if one is gone, has given up, or does
  // not come in time; the group is then of no more use.
  Status wait(std::uint32_t step);
  // Makes every member's waiting fail, with this reason. The first reason stays.
  Error fail(const Error& error);

 private:
  Status waitFor(int member, std::uint32_t step);
  // Whether it was posted while this member stayed awake.
  bool stayAwake(const MemberLine& line, std::uint32_t step);
  void sleep(int member, std::uint32_t seen) const;
  Status checkMembers(int waited_for);
  Error gone(int member);

  struct Watched {
    int member;
    Fd fd;
  };

  const std::shared_ptr<SharedMemory>
      memory_;  // shared with the HostGroup, and by ranks in threads
  const int member_;
  const std::vector<int> names_;
  const Duration timeout_;
  const pid_t pid_;
  bool crowded_ = true;
  unsigned times_together_ = 0;
  std::vector<Watched> watched_;
};

}  // namespace dure::collective
