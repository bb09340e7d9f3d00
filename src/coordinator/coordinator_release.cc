// Releases the programs of a gang that is complete.
#include <algorithm>

#include <fmt/core.h>

#include "base/log.h"
#include "base/rank_names.h"
#include "coordinator/coordinator_agent.h"
#include "gang/environment.h"
#include "protocol/rank_label.h"

namespace dure::coordinator {
namespace {

// DNS learns of pods in a second or so, and may deny them for some more if it was asked too early.
constexpr Duration kNamesPatience{30'000};

// What stands before the lines of a process where several print to one place.
std::string labelOf(const gang::Task& task, int process) {
  return task.processes > 1 ? protocol::rankLabel(task.first_rank + process) : "";
}

}  // namespace

void Coordinator::performRelease() {
  const gang::Roster& roster = gang_.roster();
  const gang::LaunchStrategy& strategy = gang::strategyOf(options_.job);
  store_.reset(strategy.store(roster));
  store_.setWorld(roster.world);
  execs_.clear();
  waiting_.clear();
  loading_.clear();
  const bool paced = options_.site.cores > 0 && roster.world > options_.site.cores;
  for (const gang::Task& task : roster.tasks) {
    auto files = strategy.files(options_.job, roster, task);
    // No variable: the environment of a rank is known before there is a run.
    if (!options_.site.run_id.empty()) files[task_files::kRunId] = options_.site.run_id;
    protocol::Start start{.workdir = options_.site.workdir,
                          .files = std::move(files),
                          .env = gang::environmentOf(options_.job, roster, options_.site, task, 0,
                                                     gang_.generation()),
                          .processes = {},
                          .tell_loaded = paced};
    for (int process = 0; process < task.processes; ++process) {
      const bool first = task.first_rank + process == 0;
      start.processes.push_back({.argv = strategy.command(options_.job, options_.site),
                                 .env = gang::environmentOf(options_.job, roster, options_.site,
                                                            task, process, gang_.generation()),
                                 .delay_ms = first ? 0 : strategy.headStart().count(),
                                 .label = labelOf(task, process)});
    }
    waiting_.emplace_back(task.name(), std::move(start));
  }
  // Those that only wait to be asked must be ready before somebody asks.
  std::stable_partition(waiting_.begin(), waiting_.end(),
                        [](const auto& task) { return task.second.processes.empty(); });
  unnamed_.clear();
  options_.site.names ? askForNames() : releaseSome();
}

// Nobody begins before everybody knows all names: those of tasks that have ended are forgotten.
void Coordinator::askForNames() {
  protocol::Names names{.names = {}, .patience_ms = kNamesPatience.count()};
  if (options_.site.store_port != 0) names.names.push_back(options_.site.address);
  for (const gang::Task& task : gang_.roster().tasks) {
    names.names.push_back(options_.site.tasks.at(task.name()).address);
  }
  for (const auto& [task, agent] : agents_) {
    unnamed_.insert(task);
    agent->send(protocol::MessageType::kNames, names);
  }
}

void Coordinator::named(const std::string& task) {
  if (unnamed_.erase(task) > 0 && unnamed_.empty()) releaseSome();
}

// Programs load interpreters and libraries for a second or more. When there are more of them than
// cores, it releases them as others have loaded: all at once, they only drive each other out of the
// caches, and the last is ready a fifth later.
void Coordinator::releaseSome() {
  while (!waiting_.empty()) {
    const auto ranks = static_cast<int>(waiting_.front().second.processes.size());
    int busy = 0;
    for (const auto& [task, count] : loading_) busy += count;
    const bool paced = waiting_.front().second.tell_loaded;
    if (paced && busy > 0 && busy + ranks > options_.site.cores) return;
    const auto [task, start] = std::move(waiting_.front());
    waiting_.pop_front();
    const auto agent = agents_.find(task);
    if (agent == agents_.end()) continue;
    if (paced && ranks > 0) loading_[task] = ranks;
    logInfo("coordinator", "releases {}", task);
    agent->second->send(protocol::MessageType::kStart, start);
  }
}

void Coordinator::loaded(const std::string& task) {
  if (loading_.erase(task) == 0) return;
  // By now the first rank has had its head start.
  for (auto& [name, start] : waiting_) {
    for (protocol::Start::Process& process : start.processes) process.delay_ms = 0;
  }
  releaseSome();
}

}  // namespace dure::coordinator
