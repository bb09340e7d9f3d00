#pragma once

#include <chrono>
#include <optional>
#include <stop_token>

namespace dure {

// Sleeps; false, and at once, if it is asked to stop.
bool sleepFor(std::chrono::milliseconds time, const std::stop_token& stop);

// How long a call may take: until a deadline, or until somebody asks it to stop. By default, as
// long as it takes.
class Wait {
 public:
  Wait() = default;
  explicit Wait(std::chrono::milliseconds patience, std::stop_token stop = {})
      : deadline_(std::chrono::steady_clock::now() + patience), stop_(std::move(stop)) {}
  explicit Wait(std::stop_token stop) : stop_(std::move(stop)) {}

  bool isOver() const;
  // Sleeps for so long or until the wait is over; false if it is.
  bool pause(std::chrono::milliseconds time) const;
  const std::stop_token& stop() const { return stop_; }

 private:
  std::optional<std::chrono::steady_clock::time_point> deadline_;
  std::stop_token stop_;
};

}  // namespace dure
