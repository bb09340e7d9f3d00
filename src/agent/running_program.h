#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/line_pipe.h"
#include "base/process.h"

namespace dure::agent {

// One process that the agent started, with the pipes it prints into.
class RunningProgram {
 public:
  struct Options {
    std::vector<std::string> argv;
    std::vector<std::string> env;
    std::string workdir;
    std::string metrics;  // a pipe to make, into which it may report; empty: none
  };
  struct Handlers {
    std::function<void(bool error_stream, std::string_view lines)> output;
    std::function<void(std::string_view lines)> metrics;
    std::function<bool()> more;  // whether output is wanted now
    std::function<void()> read;  // something was read, or a pipe has ended
  };

  // Not found, not executable, no such directory: the error says which.
  static Result<std::unique_ptr<RunningProgram>> start(asio::io_context& loop,
                                                       const Options& options, Handlers handlers);

  ~RunningProgram();
  RunningProgram(const RunningProgram&) = delete;
  RunningProgram& operator=(const RunningProgram&) = delete;

  pid_t pid() const { return pid_; }
  // Sends a signal to the process and its group, if it still runs.
  void signal(int number) const;
  void resume();

  // Told by whoever waits for children.
  void ended(ExitStatus status);
  const std::optional<ExitStatus>& status() const { return status_; }
  // It has ended and everything it had printed by then was handed on.
  bool settled();
  // Hands on some of what it has printed and was not read yet.
  void readNow();
  // Hands on what is left, including what descendants printed that outlived it.
  void drain();

  // The CPU time that the process itself has used; none when it has ended.
  std::chrono::nanoseconds used() const;
  std::chrono::milliseconds ran() const;
  std::chrono::milliseconds silent() const;
  // The last lines of its standard output, a few kilobytes at most.
  const std::string& tail() const { return tail_; }
  // The first and the last lines of its standard error, some kilobytes at most.
  std::string errors() const { return error_head_ + error_tail_; }
  // Whether it has written into the pipe of metrics.
  bool reported() const { return reported_; }

 private:
  RunningProgram() = default;
  void printed(bool error_stream, std::string_view lines);
  void keepErrors(std::string_view lines);

  pid_t pid_ = 0;
  Handlers handlers_;
  std::shared_ptr<LinePipe> out_;
  std::shared_ptr<LinePipe> err_;
  std::shared_ptr<LinePipe> metrics_;
  std::optional<ExitStatus> status_;
  std::chrono::steady_clock::time_point started_;
  std::chrono::steady_clock::time_point ended_;
  std::chrono::steady_clock::time_point active_;
  std::string tail_;
  std::string error_head_;
  std::string error_tail_;
  bool reported_ = false;
};

}  // namespace dure::agent
