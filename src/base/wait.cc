#include "base/wait.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>

namespace dure {

bool sleepFor(std::chrono::milliseconds time, const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any woken;
  std::unique_lock lock(mutex);
  woken.wait_for(lock, stop, time, [] { return false; });
  return !stop.stop_requested();
}

bool Wait::isOver() const {
  return stop_.stop_requested() || (deadline_ && std::chrono::steady_clock::now() >= *deadline_);
}

bool Wait::pause(std::chrono::milliseconds time) const {
  if (deadline_) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(*deadline_ - std::chrono::steady_clock::now());
    time = std::clamp(left, std::chrono::milliseconds(0), time);
  }
  sleepFor(time, stop_);
  return !isOver();
}

}  // namespace dure
