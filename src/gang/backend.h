#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "gang/roster.h"
#include "gang/site.h"
#include "spec/job.h"

namespace dure::gang {

// What an agent must know to join; the backend hands it over in whatever way it starts programs.
struct TaskSpec {
  std::string run;
  std::string task;
  int generation = 0;
  std::string coordinator;  // "address:port"
  std::string secret;
  bool encrypted = false;  // what agent and coordinator say to each other
};

// Where tasks run. Called from the coordinator's thread only.
class Backend {
 public:
  virtual ~Backend() = default;

  // Called from the loop.
  struct Handlers {
    // There is a place for every task of the generation.
    std::function<void(const Layout&)> placed;
    // There is none yet, and why; asked again and again until there is.
    std::function<void(const std::string& why)> waits;
    // There never will be one, unless somebody changes the job or the place.
    std::function<void(const std::string& why)> impossible;
    // The task cannot be started, and why; `for_good` if another try would not help.
    std::function<void(const std::string& task, const std::string& why, bool for_good)> refused;
    // The task is being taken away by the place itself: a node is lost or emptied, or the task has
    // filled the memory that it may have, which is `by_program`.
    std::function<void(const std::string& task, const std::string& why, bool by_program)> taken;
    // Nothing of a started task is left: neither its agent nor any process below it.
    std::function<void(const std::string& task)> gone;
    // These cannot be killed, whatever the task; told before it is said to be gone.
    std::function<void(const std::string& processes)> left;
  };
  // Before anything else.
  virtual void listen(Handlers handlers) = 0;

  // What the environment of the ranks will be made of. Nothing starts. Invalid if the job cannot
  // run here as it is written.
  virtual Result<Site> survey(const spec::Job& job) = 0;
  // Looks for places for a gang with at most so many workers: all of it or nothing.
  virtual void place(int generation, int workers) = 0;
  // Asks for the task to run and returns before it does. All tasks of a generation that was placed
  // are asked for at once. Starting one that already exists is a success, so that a retry after a
  // lost reply is safe.
  virtual Status start(const TaskSpec& task) = 0;
  // Makes an end of whatever is left of the task, without asking it. Success also if it is gone.
  virtual void kill(const std::string& task) = 0;
  // The node of the cluster that the task runs on; empty where there are none, or it is not known.
  virtual std::string nodeOf(const std::string&) { return ""; }
  // Its agent has said that nothing of the task is left but itself.
  virtual void finished(const std::string&) {}
};

}  // namespace dure::gang
