#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "base/result.h"

namespace dure::serve {

struct AccessEntry {
  std::string_view client;
  std::string_view method;
  std::string_view target;
  int status = 0;
  std::size_t bytes = 0;
  std::chrono::nanoseconds took{};
};

// A line for every request, in JSON: {"time": …, "client": …, "method": …, "path": …, "status": …,
// "bytes": …, "ms": …}. May be used from several threads.
class AccessLog {
 public:
  // "-" is standard output. Lines are added to what is in the file.
  static Result<std::unique_ptr<AccessLog>> open(const std::string& path);
  // What cannot be written is lost.
  void write(const AccessEntry& entry);

 private:
  explicit AccessLog(Fd fd) : fd_(std::move(fd)) {}
  std::mutex mutex_;
  Fd fd_;
};

}  // namespace dure::serve
