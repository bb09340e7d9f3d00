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

// Synchronises the members of a host: each counts the steps of the pipeline that it has done, and
// waits for the others' counters. Used by one thread of each member.
class MemberSync {
 public:
  // `ranks` has one for each member, for messages.
  MemberSync(std::shared_ptr<SharedMemory> memory, int member, std::vector<int> ranks,
             Duration timeout);
  // Tells the others that this member has left, unless this process is a fork of it.
  ~MemberSync();
  MemberSync(const MemberSync&) = delete;
  MemberSync& operator=(const MemberSync&) = delete;

  // A descriptor that becomes readable, or hangs up, when `member` ends.
  void watch(int member, Fd fd);
  // Opens such descriptors for all, and finds out whether there is a processor for each member. All
  // have posted a step before, and with it their process ids.
  void start();

  // Tells the others that this member has done all up to `step`.
  void post(std::uint32_t step);
  // Returns when all members have posted `step`. Unavailable if one has ended, has failed, or does
  // not post in time; the group stays failed then.
  Status wait(std::uint32_t step);
  // Makes every member's waiting fail, with this reason. The first reason stays.
  Error fail(const Error& error);

 private:
  Status waitFor(int member, std::uint32_t step);
  // Whether it was posted while this member stayed awake.
  bool stayAwake(const MemberLine& line, std::uint32_t step);
  void sleep(int member, std::uint32_t seen) const;
  Status checkMembers(int waited_for);
  Error ended(int member);

  struct Watched {
    int member;
    Fd fd;
  };

  const std::shared_ptr<SharedMemory>
      memory_;  // shared with the HostGroup, and by ranks in threads
  const int member_;
  const std::vector<int> ranks_;
  const Duration timeout_;
  const pid_t pid_;
  bool crowded_ = true;
  unsigned times_together_ = 0;
  std::vector<Watched> watched_;
};

}  // namespace dure::collective
