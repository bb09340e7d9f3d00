#pragma once

#include <map>
#include <string>
#include <vector>

#include "gang/roster.h"
#include "gang/site.h"
#include "spec/job.h"

namespace dure::gang {

using Environment = std::map<std::string, std::string>;

// Everything that Dure sets for one process of a task, on top of what it inherits. A task without
// processes (a worker of MPI) asks for process 0: what the programs started in it later will see.
// Pure: the same arguments give the same variables.
Environment environmentOf(const spec::Job& job, const Roster& roster, const Site& site,
                          const Task& task, int process, int generation);

// What is run: the job's command, under mpirun where the strategy needs it and the command is not
// already a launcher or a shell; or the trainer, which lies beside the agent.
std::vector<std::string> commandOf(const spec::Job& job, const Site& site);

// How much earlier the first rank starts than the others. Ranks of PyTorch that find nobody
// listening at the first one's port try again only after a second; this way they find it.
Duration headStart(const spec::Job& job);

// Files a task needs beside its environment, by name, to be written into its directory.
std::map<std::string, std::string> filesOf(const spec::Job& job, const Roster& roster,
                                           const Task& task);

// The first ports of the job's range: how many the strategy needs on one address.
int portsNeeded(const spec::Job& job);

// What is in Horovod's key-value store before the first rank asks: "scope/key" to value.
std::map<std::string, std::string> initialStore(const spec::Job& job, const Roster& roster);

}  // namespace dure::gang
