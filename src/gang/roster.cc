#include "gang/roster.h"

#include <fmt/core.h>

#include "gang/launch_strategy.h"

namespace dure::gang {

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

bool decidesEnd(const spec::Job& job, const Task& task) {
  const bool chief = job.success == spec::Success::kChief ||
                     (job.success == spec::Success::kAuto && strategyOf(job).endsWithChief(job));
  if (chief && task.first_rank != 0) return false;
  return task.processes > 0 && task.role != Role::kPs && task.role != Role::kEvaluator;
}

Roster makeRoster(const spec::Job& job, const Layout& layout) {
  Roster roster;
  roster.workers = layout.workers;
  roster.split = layout.gpus;
  const LaunchStrategy& strategy = strategyOf(job);
  const bool launched = strategy.hasLauncher();
  const bool alone = strategy.startsProcesses(job.program.command);
  const auto add = [&](Role role, int count) {
    for (int index = 0; index < count; ++index) {
      Task task{.role = role, .index = index, .first_rank = roster.world};
      const bool computes = role == Role::kChief || role == Role::kWorker;
      const bool split = role == Role::kWorker && !layout.gpus.empty();
      task.gpus = split ? layout.gpus.at(static_cast<std::size_t>(index)) : job.resources.gpus;
      if (role == Role::kLauncher) task.gpus = 0;
      if (computes) {
        task.slots = split && job.processes == 0 ? task.gpus : spec::processesPerTask(job);
        task.processes = launched ? 0 : alone ? 1 : task.slots;
      }
      roster.tasks.push_back(task);
      roster.world += task.processes;
    }
  };
  if (launched) add(Role::kLauncher, 1);
  if (!launched) add(Role::kChief, job.roles.chief);
  add(Role::kWorker, layout.workers);
  if (!launched) add(Role::kPs, job.roles.ps);
  if (!launched) add(Role::kEvaluator, job.roles.evaluator);
  return roster;
}

}  // namespace dure::gang
