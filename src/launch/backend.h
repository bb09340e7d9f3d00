#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "launch/roster.h"
#include "launch/site.h"
#include "spec/job.h"

namespace dure {

// What an agent must know to join; the backend hands it over in whatever way it starts programs.
struct TaskSpec {
  std::string run;
  std::string task;
  int generation = 0;
  std::string coordinator;  // "address:port"
  std::string secret;
};

// Where tasks run. Called from the coordinator's thread only.
class Backend {
 public:
  virtual ~Backend() = default;

  // What the environment of the ranks will be made of. Nothing starts. Invalid if the job cannot
  // run here as it is written.
  virtual Result<Site> survey(const Job& job) = 0;
  // Asks for the task to run and returns before it does. Starting a task of this generation that
  // already exists is a success, so that a retry after a lost reply is safe.
  virtual Status start(const TaskSpec& task) = 0;
  // Makes an end of whatever is left of the task, without asking it. Success also if it is gone.
  virtual void kill(const std::string& task) = 0;
  // Tells, from the loop, that nothing of a started task is left: neither its agent nor any
  // process below it.
  virtual void onGone(std::function<void(const std::string& task)> tell) = 0;
};

}  // namespace dure
