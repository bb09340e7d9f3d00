#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "gang/roster.h"
#include "gang/site.h"
#include "spec/job.h"

namespace dure::gang {

// What the agents of a generation must know to join, each beside the name of its task.
struct JoinOptions {
  std::string run;
  int generation = 0;
  std::string coordinator;  // "address:port"
  std::string secret;
  bool encrypted = false;  // the connection between agent and coordinator
};

// Where tasks run. Called from the coordinator's thread only.
class Backend {
 public:
  virtual ~Backend() = default;

  // Called from the loop.
  struct Handlers {
    // Every task of the generation has a node.
    std::function<void(const Roster&)> placed;
    // The gang does not fit yet, and why; the backend goes on looking.
    std::function<void(const std::string& why)> waits;
    // It never will, unless somebody changes the job or the cluster.
    std::function<void(const std::string& why)> impossible;
    // The task cannot be started, and why; `for_good` if another try would not help.
    std::function<void(const std::string& task, const std::string& why, bool for_good)> refused;
    // The platform evicts the task: a node is lost or drained, or the task has filled the memory
    // that it may have, which is `by_program`.
    std::function<void(const std::string& task, const std::string& why, bool by_program)> taken;
    // Nothing of a started task is left: neither its agent nor any process below it.
    std::function<void(const std::string& task)> gone;
    // These cannot be killed, whatever the task; called before `gone`.
    std::function<void(const std::string& processes)> left;
  };
  // Before anything else.
  virtual void listen(Handlers handlers) = 0;

  // The site that the ranks' environment is made of. Starts nothing. Invalid if the job cannot run
  // here as it is written.
  virtual Result<Site> survey() = 0;
  // Looks for nodes for a gang with at most so many workers: all of it or nothing.
  virtual void place(int generation, int workers) = 0;
  // Whether a task that did not start may start if the gang is placed again.
  virtual bool choosesNodes() const { return false; }
  // Starts the agents of the gang that was placed, and returns before they run. Idempotent: a task
  // that already exists is not started twice.
  virtual void start(const Roster& roster, const JoinOptions& join) = 0;
  // Kills whatever is left of the task. Idempotent: success also if it is gone.
  virtual void kill(const std::string& task) = 0;
  // The node of the cluster that the task runs on; empty where there are none, or it is not known.
  virtual std::string nodeOf(const std::string&) { return ""; }
  // Its agent has said that nothing of the task is left but itself.
  virtual void finished(const std::string&) {}
};

}  // namespace dure::gang
