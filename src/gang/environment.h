#pragma once

#include "gang/launch_strategy.h"

namespace dure::gang {

// Everything that Dure sets for one process of a task, on top of what it inherits. A task without
// processes (a worker of MPI) asks for process 0: what the programs started in it later will see.
// Pure: the same arguments give the same variables.
Environment environmentOf(const spec::Job& job, const Roster& roster, const Site& site,
                          const Task& task, int process, int generation);

// The first ports of the job's range: how many the strategy needs on one address.
int portsNeeded(const spec::Job& job);

}  // namespace dure::gang
