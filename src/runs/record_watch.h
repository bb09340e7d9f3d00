#pragma once

#include <chrono>
#include <string>

#include "base/fd.h"

namespace dure::runs {

// Tells when the record of a run changes: its journal or its metrics. Nothing is read while nothing
// happens.
class RecordWatch {
 public:
  explicit RecordWatch(const std::string& directory);

  // Waits for a change, but no longer than this; whether there was one since the last call. Where
  // the kernel does not tell, there always was.
  bool next(std::chrono::milliseconds patience);

 private:
  Fd events_;
};

}  // namespace dure::runs
