#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "gang/roster.h"
#include "gang/site.h"
#include "spec/job.h"

namespace dure::gang {

using Environment = std::map<std::string, std::string>;
using TaskFiles = std::map<std::string, std::string>;  // by name, in the task's directory

// One rank's numbers in the gang, in the terms that torch and Horovod share.
struct RankNumbers {
  int rank;
  int world;
  int local_rank;
  int local_world;
  int group;   // the task's number
  int groups;  // of tasks
  int slots;   // processes in this task, whoever starts them
};
RankNumbers numbersOf(const Roster& roster, const Task& task, int process);

// One process of a task, as its strategy sees it.
struct ProcessView {
  const spec::Job& job;
  const Roster& roster;
  const Site& site;
  const Task& task;
  RankNumbers numbers;
  int generation;
};

// How the processes of a job are started and find each other: one object per strategy, in
// strategies/. It has no state, and each answer is a function of the arguments. What it does not
// override is as a plain program has it.
class LaunchStrategy {
 public:
  virtual ~LaunchStrategy() = default;

  // A launcher (mpirun), in a task of its own, starts the ranks in the workers; Dure starts only
  // it.
  virtual bool hasLauncher() const { return false; }
  // Whether the command starts the processes of its task itself, as torchrun does.
  virtual bool startsProcesses(const std::vector<std::string>& command) const;
  // With `success: auto`: whether the job has done its work when the chief has.
  virtual bool endsWithChief(const spec::Job& job) const;
  // Whether the exit code says that the next try would fail as well.
  virtual bool isHopeless(int exit_code) const;
  // Whether the processes need Dure's agents or coordinator, which plain manifests do not have.
  virtual bool needsAgent() const { return false; }

  // How much earlier the first rank starts than the others.
  virtual Duration headStart() const { return Duration(0); }
  // What is run.
  virtual std::vector<std::string> command(const spec::Job& job, const Site& site) const;
  // Adds what its processes look for.
  virtual void addVariables(Environment& env, const ProcessView& process) const;
  // What a task needs beside its environment.
  virtual TaskFiles files(const spec::Job& job, const Roster& roster, const Task& task) const;

  // Whether ranks rendezvous at a key-value store of the coordinator, and what is in it before the
  // first of them asks: "scope/key" to value.
  virtual bool needsStore() const { return false; }
  virtual std::map<std::string, std::string> store(const Roster& roster) const;
};

// That of the job's strategy, for as long as the program runs.
const LaunchStrategy& strategyOf(const spec::Job& job);

// OpenBLAS and OpenMP take every core for each process unless told otherwise.
inline constexpr const char* kThreadVariables[] = {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"};
void addThreads(Environment& env, const ProcessView& process);

}  // namespace dure::gang
