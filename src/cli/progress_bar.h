#pragma once

#include <chrono>
#include <cstdint>
#include <iosfwd>
#include <string>

#include "base/result.h"
#include "cli/command.h"

namespace dure::cli {

// How far a command is that works on files of this machine, as a line on standard error where that
// is a terminal. An interruption ends the work at its next step.
class ProgressBar {
 public:
  // `what` stands before the bar: "copy".
  ProgressBar(std::ostream& err, std::string what);
  // Wipes the line.
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;

  // Unavailable, after an interruption.
  Status update(std::uint64_t done, std::uint64_t of);

 private:
  std::ostream& err_;
  const std::string what_;
  const bool shown_;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point drawn_;
};

// "  copy  [#########-----------]  45%  1.2 GB/s"
std::string progressLine(const std::string& what, std::uint64_t done, std::uint64_t of,
                         std::chrono::duration<double> taken);

// "2.73 GB", "51 kB", "7 bytes"
std::string sizeText(std::uint64_t bytes);

// The failure of a command that had a bar: an interruption has an exit code of its own.
void failOrInterrupted(Context& context, const Error& error);

}  // namespace dure::cli
