#pragma once

#include "gang/launch_strategy.h"

namespace dure::gang {

// mpirun, in a launcher of its own, starts the ranks in the workers through Dure's agents.
class Mpi : public LaunchStrategy {
 public:
  bool hasLauncher() const override { return true; }
  bool needsAgent() const override { return true; }
  // Under mpirun, unless the command is a launcher or a shell already.
  std::vector<std::string> command(const spec::Job& job, const Site& site) const override;
  void addVariables(Environment& env, const ProcessView& process) const override;
  // The hosts of mpirun: a worker each.
  TaskFiles files(const spec::Job& job, const Roster& roster, const Task& task) const override;
};

}  // namespace dure::gang
