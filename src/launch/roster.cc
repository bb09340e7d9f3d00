#include "launch/roster.h"

#include <algorithm>
#include <filesystem>

#include <fmt/core.h>

namespace dure {
namespace {

// torchrun, by any of its names, starts the processes of its task itself.
bool callsTorchrun(const std::vector<std::string>& command) {
  if (command.empty()) return false;
  if (std::filesystem::path(command[0]).filename() == "torchrun") return true;
  const auto module = std::find(command.begin(), command.end(), "-m");
  return module != command.end() && module + 1 != command.end() &&
         (*(module + 1) == "torch.distributed.run" || *(module + 1) == "torch.distributed.launch");
}

}  // namespace

std::string roleName(Role role) {
  switch (role) {
    case Role::kChief:
      return "chief";
    case Role::kWorker:
      return "worker";
    case Role::kPs:
      return "ps";
    case Role::kEvaluator:
      return "evaluator";
    case Role::kLauncher:
      return "launcher";
  }
  return "";
}

std::string Task::name() const { return fmt::format("{}-{}", roleName(role), index); }

const Task* Roster::find(const std::string& name) const {
  for (const Task& task : tasks) {
    if (task.name() == name) return &task;
  }
  return nullptr;
}

const Task* Roster::holder(int rank) const {
  for (const Task& task : tasks) {
    if (rank >= task.first_rank && rank < task.first_rank + task.processes) return &task;
  }
  return nullptr;
}

bool usesMpi(const Job& job) {
  return job.strategy == Strategy::kMpi ||
         (job.strategy == Strategy::kHorovod && job.horovod.controller == HorovodController::kMpi);
}

bool decidesEnd(const Task& task) {
  return task.processes > 0 && task.role != Role::kPs && task.role != Role::kEvaluator;
}

Roster makeRoster(const Job& job, int workers) {
  Roster roster;
  roster.workers = workers;
  roster.per_task = processesPerTask(job);
  const auto add = [&](Role role, int count, int processes) {
    for (int index = 0; index < count; ++index) {
      roster.tasks.push_back({role, index, roster.world, processes});
      roster.world += processes;
    }
  };
  if (usesMpi(job)) {
    add(Role::kLauncher, 1, 1);
    add(Role::kWorker, workers, 0);
    return roster;
  }
  const bool alone = job.strategy == Strategy::kTorch && callsTorchrun(job.program.command);
  const int started = alone ? 1 : roster.per_task;
  add(Role::kChief, job.roles.chief, started);
  add(Role::kWorker, workers, started);
  add(Role::kPs, job.roles.ps, 1);
  add(Role::kEvaluator, job.roles.evaluator, 1);
  return roster;
}

}  // namespace dure
