#pragma once

#include <chrono>
#include <functional>
#include <thread>

#include "base/fd.h"

namespace dure::agent {

// The clock that goes on while the machine is suspended.
struct BootClock {
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<BootClock>;
  static constexpr bool is_steady = true;
  static time_point now();
};

// The right to run until `length` has passed since the coordinator was last known to be there. It
// is kept by a thread of its own, so that it ends in time whatever the rest of the process is stuck
// in.
class Lease {
 public:
  // The lease's thread calls `expired` once.
  Lease(std::chrono::milliseconds length, std::function<void()> expired);
  // Returns when `expired`, if it has been called, has returned.
  ~Lease();
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  // The coordinator was there at some time after `then`. What has run out stays so.
  void renew(BootClock::time_point then);

 private:
  void arm() const;
  void work() const;

  const std::chrono::milliseconds length_;
  const std::function<void()> expired_;
  BootClock::time_point end_;  // of the thread that renews it
  Fd timer_;
  Fd ended_;  // readable when this object goes
  std::jthread thread_;
};

}  // namespace dure::agent
