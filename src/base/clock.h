#pragma once

#include <chrono>
#include <string>

namespace dure {

// All durations of the program have this type; what a person wrote as "1h30m" becomes one.
using Duration = std::chrono::milliseconds;
using TimePoint = std::chrono::system_clock::time_point;

// Time as the decisions see it, so that a test can move it by hand.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint now() const = 0;
};

class SystemClock : public Clock {
 public:
  TimePoint now() const override { return std::chrono::system_clock::now(); }
};

class FakeClock : public Clock {
 public:
  TimePoint now() const override { return now_; }
  void advance(Duration by) { now_ += by; }

 private:
  TimePoint now_{std::chrono::hours(24 * 365 * 50)};
};

// "2026-11-15T20:01:02.345Z", and back; the epoch for text that is no such time.
std::string formatTime(TimePoint time);
TimePoint parseTime(const std::string& text);

}  // namespace dure
