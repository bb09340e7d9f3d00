#include "gang/launch_strategy.h"

#include <algorithm>

#include "gang/strategies/strategies.h"

namespace dure::gang {

RankNumbers numbersOf(const Roster& roster, const Task& task, int process) {
  const auto number = std::find_if(roster.tasks.begin(), roster.tasks.end(),
                                   [&](const Task& t) { return t.name() == task.name(); }) -
                      roster.tasks.begin();
  return {.rank = task.first_rank + process,
          .world = roster.world,
          .local_rank = process,
          .local_world = task.processes,
          .group = static_cast<int>(number),
          .groups = static_cast<int>(roster.tasks.size()),
          .slots = task.slots};
}

bool LaunchStrategy::startsProcesses(const std::vector<std::string>& /*command*/) const {
  return false;
}

bool LaunchStrategy::endsWithChief(const spec::Job& /*job*/) const { return false; }

bool LaunchStrategy::isHopeless(int /*exit_code*/) const { return false; }

std::vector<std::string> LaunchStrategy::command(const spec::Job& job, const Site& /*site*/) const {
  return job.program.command;
}

void LaunchStrategy::addVariables(Environment& /*env*/, const ProcessView& /*process*/) const {}

TaskFiles LaunchStrategy::files(const spec::Job& /*job*/, const Roster& /*roster*/,
                                const Task& /*task*/) const {
  return {};
}

std::map<std::string, std::string> LaunchStrategy::store(const Roster& /*roster*/) const {
  return {};
}

const LaunchStrategy& strategyOf(const spec::Job& job) {
  return kLaunchStrategies[static_cast<std::size_t>(job.strategy)].choose(job);
}

void addThreads(Environment& env, const ProcessView& process) {
  const RankNumbers& numbers = process.numbers;
  if (numbers.world < 2) return;
  const int threads =
      std::max(1, static_cast<int>(process.job.resources.cpus) / std::max(1, numbers.local_world));
  for (const char* name : kThreadVariables) {
    if (!process.site.inherited.contains(name)) env[name] = std::to_string(threads);
  }
}

}  // namespace dure::gang
