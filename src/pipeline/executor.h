#pragma once

#include <string>

#include "base/result.h"
#include "pipeline/pipeline.h"

namespace dure::pipeline {

// One attempt to carry out a part.
struct Attempt {
  std::string part;
  StepKind kind = StepKind::kCommand;
  spec::Job job;     // named as the part
  int port = 0;      // of a service, and
  std::string path;  // where it says that it is ready
  std::string type;  // of its Service in a cluster
};

struct Progress {
  enum class State { kRunning, kReady, kSucceeded, kFailed, kInfrastructureFailed, kStopped };
  State state = State::kRunning;
  std::string reason;  // of a service that is ready: where it answers, if that is worth telling
  std::string report;  // of a job that has succeeded: what it reported last, a JSON object
};

// What is left of an attempt whose pipeline process died.
enum class Left {
  kNothing,    // nothing runs any more, and it is to be done again
  kSucceeded,  // it came to its end, and its output is whole
  kResumable,  // nothing runs, and it can go on where it was
  kRuns,       // a service that is there still
};

// Where parts run: on this machine, or in a cluster. Called from one thread.
class Executor {
 public:
  virtual ~Executor() = default;
  // The name of the run that was started. Invalid if it can never start as it is.
  virtual Result<std::string> start(const Attempt& attempt) = 0;
  // Goes on with the run of an attempt that is kResumable.
  virtual Status resume(const Attempt& attempt, const std::string& run) = 0;
  // How a part stands that was started, resumed or recovered here.
  virtual Progress look(const std::string& part) = 0;
  // Returns before it has stopped.
  virtual void stop(const std::string& part, bool at_once) = 0;
  // Finds out what is left of a run, and ends it unless it is a service.
  virtual Result<Left> recover(const Attempt& attempt, const std::string& run) = 0;
  // What the job of a run that has succeeded reported last.
  virtual std::string reportOf(const std::string& run) const = 0;
};

}  // namespace dure::pipeline
