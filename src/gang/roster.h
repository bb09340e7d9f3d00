#pragma once

#include <optional>
#include <string>
#include <vector>

#include "spec/job.h"

namespace dure::gang {

enum class Role { kChief, kWorker, kPs, kEvaluator, kLauncher };
std::string roleName(Role role);

// One member of a job: a role and an index, and the processes it holds.
struct Task {
  Role role = Role::kWorker;
  int index = 0;
  int first_rank = 0;  // of its first process
  int processes = 1;   // 0: it only waits to be asked, as a worker of MPI does
  int slots = 1;       // processes of the job in it, whoever starts them: mpirun, torchrun, Dure
  int gpus = 0;

  std::string name() const;  // "worker-3"
};

// All tasks of one generation, in the order of their ranks.
struct Roster {
  std::vector<Task> tasks;
  int world = 0;           // processes that have a rank
  int workers = 0;         // tasks of role worker
  std::vector<int> split;  // GPUs of each worker, where the job leaves the split open

  const Task* find(const std::string& name) const;
  // The task that holds the process with this rank.
  const Task* holder(int rank) const;
};

// What the job leaves to the backend.
struct Layout {
  int workers = 1;
  std::vector<int> gpus;  // of each worker, where the job leaves the split open
};

// Who takes part when the job is laid out so. Ranks go through chief, workers, parameter
// servers and evaluator in this order. A command that is torchrun gets one process per task, and
// starts the others itself. With MPI the launcher alone has a process (rank 0 of a world
// of one, as Dure sees it); the ranks that mpirun starts in the workers are its own business.
Roster makeRoster(const spec::Job& job, const Layout& layout);
inline Roster makeRoster(const spec::Job& job, int workers) {
  return makeRoster(job, Layout{workers});
}

// The job has done its work when all processes of these have ended well: what then still runs
// (parameter servers, evaluator, MPI's workers; with `success: chief` all others) is stopped.
bool decidesEnd(const spec::Job& job, const Task& task);

}  // namespace dure::gang
