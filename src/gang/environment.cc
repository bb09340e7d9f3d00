#include "gang/environment.h"

#include <filesystem>

#include "base/rank_names.h"

namespace dure::gang {
namespace {

std::string text(int number) { return std::to_string(number); }

void addDure(Environment& env, const ProcessView& process) {
  const spec::Job& job = process.job;
  const Site& site = process.site;
  const Task& task = process.task;
  env[variables::kJob] = job.name;
  if (!site.run.empty()) env[variables::kRun] = site.run;
  env[variables::kStrategy] = spec::strategyName(job.strategy);
  env[variables::kGeneration] = text(process.generation);
  env[variables::kTask] = task.name();
  env[variables::kRole] = roleName(task.role);
  env[variables::kIndex] = text(task.index);
  env[variables::kTaskDirectory] = site.taskDirectory(task.name());
  env["PYTHONUNBUFFERED"] = "1";
  if (task.processes > 0) {
    env[variables::kRank] = text(process.numbers.rank);
    env[variables::kWorldSize] = text(process.numbers.world);
    env[variables::kLocalRank] = text(process.numbers.local_rank);
    env[variables::kLocalWorldSize] = text(process.numbers.local_world);
    env[variables::kMetrics] =
        task_files::metricsOf(site.taskDirectory(task.name()), process.numbers.local_rank);
  }
  // Whole, so that a program may change its directory.
  const std::filesystem::path start(site.workdir);
  if (!job.checkpoint.path.empty()) env[variables::kCheckpoint] = start / job.checkpoint.path;
  if (!job.output.empty()) env[variables::kOutput] = start / job.output;
  const auto gpus = site.gpus.find(task.name());
  if (gpus != site.gpus.end()) env["CUDA_VISIBLE_DEVICES"] = gpus->second;
}

// Where the first rank waits for the others.
void addRendezvous(Environment& env, const Roster& roster, const Site& site) {
  const Endpoint& first = site.tasks.at(roster.tasks.front().name());
  env[variables::kMasterAddress] = first.address;
  env[variables::kMasterPort] = text(first.port);
}

}  // namespace

Environment environmentOf(const spec::Job& job, const Roster& roster, const Site& site,
                          const Task& task, int process, int generation) {
  const LaunchStrategy& strategy = strategyOf(job);
  const ProcessView view{job, roster, site, task, numbersOf(roster, task, process), generation};
  Environment env;
  addDure(env, view);
  if (!strategy.hasLauncher()) addRendezvous(env, roster, site);
  strategy.addVariables(env, view);
  // What the job says itself comes last and wins.
  for (const auto& [name, value] : job.env) env[name] = value;
  return env;
}

int portsNeeded(const spec::Job& job) {
  return static_cast<int>(makeRoster(job, job.workers.max).tasks.size()) + 1;
}

}  // namespace dure::gang
