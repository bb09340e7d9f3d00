#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "base/fd.h"

namespace dure::agent {

// Writes to a descriptor that may block for minutes, as a container's standard output does when its
// runtime hangs, from a thread of its own. Callers ask hasRoom() before they take more, which
// bounds what waits (back-pressure).
class OutputWriter {
 public:
  // The writer's thread calls `drained` when there is room again after there was none, and when all
  // has been written.
  OutputWriter(int fd, std::function<void()> drained);
  // Gives what waits a moment more to be written, as long as something of it is.
  ~OutputWriter();
  OutputWriter(const OutputWriter&) = delete;
  OutputWriter& operator=(const OutputWriter&) = delete;

  void write(std::string_view bytes);
  bool hasRoom();
  // All has been written, or nothing of it can be.
  bool idle();

 private:
  void work(const std::stop_token& stop);
  // As much as can be written without waiting for more than a moment; 0: nothing could be.
  std::size_t writeSome(std::string_view bytes) const;

  const int fd_;
  const std::function<void()> drained_;
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::string waiting_;        // guarded by mutex_
  std::size_t unwritten_ = 0;  // guarded by mutex_; of waiting_ and what the thread has of it
  bool broken_ = false;        // guarded by mutex_; nobody can read it any more
  std::jthread thread_;
};

}  // namespace dure::agent
