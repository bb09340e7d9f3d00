#include "backend/kubernetes/kube_runs.h"

#include <filesystem>

#include <fmt/core.h>

#include "backend/kubernetes/objects.h"
#include "backend/kubernetes/record.h"
#include "backend/kubernetes/run_follower.h"
#include "backend/kubernetes/volume_pod.h"
#include "base/text.h"
#include "spec/load.h"

namespace dure::kubernetes {
namespace {

using nlohmann::json;
using namespace std::chrono_literals;

constexpr auto kPoll = 200ms;
constexpr auto kLogPoll = 100ms;
constexpr auto kAskAgain = 1s;
constexpr auto kRemovalPatience = 2min;
// For the last words of pods that have ended.
constexpr auto kLogDrain = 10s;

// What there still is of a run that is being removed.
Result<std::vector<std::string>> whatIsLeft(kube::KubeClient& client, const KubeRun& run) {
  std::vector<std::string> left;
  for (const kube::KubeKind& kind : {kube::kinds::kPods, kube::kinds::kConfigMaps}) {
    const auto objects =
        client.listAll({kind, run.name_space, "", ""}, {.labels = selectorOf(run)});
    if (!objects) return objects.error();
    for (const json& object : *objects) {
      left.push_back(
          fmt::format("{}/{}", kind.plural, object.at("metadata").at("name").get<std::string>()));
    }
  }
  return left;
}

Status removeObjects(kube::KubeClient& client, const KubeRun& run, const Wait& wait) {
  // Not everybody may; whoever granted it may take it back.
  static_cast<void>(client.remove({kube::kinds::kClusterRoles, "", run.clusterObject(), ""}));
  const kube::KubeAddress record{kube::kinds::kConfigMaps, run.name_space, run.object(), ""};
  for (const kube::KubeAddress& address : {managerOf(run), record}) {
    if (auto removed = client.remove(address); !removed) return removed;
  }
  const Wait patience(kRemovalPatience, wait.stop());
  while (true) {
    const auto left = whatIsLeft(client, run);
    if (!left) return left.error();
    if (left->empty()) return {};
    if (wait.isOver() || !patience.pause(kPoll)) {
      return Error(Code::kUnavailable,
                   fmt::format("{} is being removed, but {} stay{}; is their node away?",
                               run.text(), join(*left, ", "), left->size() == 1 ? "s" : ""));
    }
  }
}

}  // namespace

KubeRun KubeRuns::runOf(const runs::RunId& id) const {
  return {.name_space = client_->access().name_space, .job = id.name, .number = id.number};
}

Result<std::vector<runs::RunView>> KubeRuns::list() {
  auto records = listRecords(*client_, client_->access().name_space);
  if (!records) return std::move(records).error();
  std::vector<runs::RunView> views;
  for (const KubeRecord& record : *records) {
    auto run = readKubeRun(*client_, record.run);
    // It may have been removed since.
    if (!run && run.error().code() == Code::kNotFound) continue;
    if (!run) return std::move(run).error();
    views.push_back(*std::move(run));
  }
  return views;
}

Result<runs::RunId> KubeRuns::find(const std::string& text) {
  const auto run = findRun(*client_, client_->access().name_space, text);
  if (!run) return run.error();
  return runs::RunId{.name = run->job, .number = run->number};
}

Result<runs::RunView> KubeRuns::read(const runs::RunId& id) {
  return readKubeRun(*client_, runOf(id));
}

Result<runs::RunView> KubeRuns::follow(const runs::RunId& id, runs::Follower& follower,
                                       const Wait& wait) {
  return RunFollower(*client_, runOf(id), follower).follow(wait);
}

Status KubeRuns::logs(const runs::RunId& id, const runs::LogQuery& query, const runs::Lines& lines,
                      const Wait& wait) {
  const KubeRun run = runOf(id);
  if (query.follow) return followLogs(run, query, lines, wait);
  auto generation = query.generation;
  if (!generation) {
    const auto view = readKubeRun(*client_, run);
    if (!view) return view.error();
    generation = view->state.generation;
  }
  PodLogs logs(*client_, run, generation, [&](int g, int rank, std::string_view text) {
    if (!query.rank || *query.rank == rank) lines(g, rank, text);
  });
  const auto pods = client_->listAll({kube::kinds::kPods, run.name_space, "", ""},
                                     {.labels = selectorOf(run, "task")});
  if (!pods) return pods.error();
  return logs.see(*pods, false);
}

Status KubeRuns::followLogs(const KubeRun& run, const runs::LogQuery& query,
                            const runs::Lines& lines, const Wait& wait) {
  PodLogs logs(*client_, run, query.generation, [&](int g, int rank, std::string_view text) {
    if (!query.rank || *query.rank == rank) lines(g, rank, text);
  });
  RunWatch watch(*client_, run);
  RunObjects objects;
  bool stale = false;
  while (!wait.isOver()) {
    if (auto news = watch.next(kLogPoll)) {
      objects = *std::move(news);
      stale = true;
    }
    const auto trouble = watch.trouble();
    if (trouble && trouble->code() == Code::kDenied) return *trouble;
    if (!stale) continue;
    if (auto looked = logs.see(objects.pods, true); !looked) return looked;
    const auto now = followed(*client_, run, objects);
    if (now ? now->over : now.error().code() == Code::kNotFound) break;
    // Whatever else keeps us from it, the run goes on.
    stale = !now;
    if (stale) static_cast<void>(wait.pause(kAskAgain));
  }
  readLastWords(*client_, run, watch, logs, Wait(kLogDrain, wait.stop()));
  return {};
}

Status KubeRuns::askToStop(const runs::RunId& id, bool at_once) {
  const json patch = {
      {"metadata", {{"annotations", {{annotations::kStop, at_once ? "now" : "gently"}}}}}};
  const KubeRun run = runOf(id);
  const auto asked =
      client_->patch({kube::kinds::kConfigMaps, run.name_space, run.object(), ""}, patch);
  return asked ? Status{} : asked.error();
}

Status KubeRuns::end(const KubeRun& run, bool at_once, const Wait& wait) {
  const runs::RunId id{.name = run.job, .number = run.number};
  if (auto asked = askToStop(id, at_once); !asked) return asked;
  while (true) {
    const auto manager = client_->get(managerOf(run));
    if (!manager && manager.error().code() == Code::kNotFound) return {};
    if (!manager && manager.error().code() != Code::kUnavailable) return manager.error();
    const auto record = readRecord(*client_, run);
    if (record && gang::replay(record->entries).outcome) return {};
    if (manager && !isAtWork(*manager)) return {};
    if (record && record->entries.empty()) {
      const ManagerProblem problem = managerProblem(*client_, run);
      if (!problem.why.empty()) {
        return Error(Code::kUnavailable,
                     fmt::format("the manager of {} has not started: {}", run.text(), problem.why));
      }
    }
    if (!wait.pause(kPoll)) return timedOut(id, "stopping");
  }
}

Result<runs::Stopped> KubeRuns::stop(const runs::RunId& id, bool at_once, const Wait& wait) {
  const KubeRun run = runOf(id);
  const auto before = readKubeRun(*client_, run);
  if (!before) return before.error();
  const bool was_running = before->in_charge && !before->state.outcome;
  if (was_running) {
    if (auto ended = end(run, at_once, wait); !ended) return std::move(ended).error();
  }
  auto after = readKubeRun(*client_, run);
  if (!after) return std::move(after).error();
  return runs::Stopped{.was_running = was_running, .run = *std::move(after)};
}

Status KubeRuns::remove(const runs::RunId& id, bool force, const Wait& wait) {
  const KubeRun run = runOf(id);
  const auto view = readKubeRun(*client_, run);
  if (!view) return view.error();
  if (view->in_charge && !view->state.outcome) {
    if (!force) return stillRunning(id);
    // One that has not begun has nothing to stop.
    if (!view->entries.empty()) {
      if (auto ended = end(run, false, wait); !ended) return ended;
    }
  }
  return removeObjects(*client_, run, wait);
}

Result<std::string> KubeRuns::bringHome(const runs::RunId& id, const std::string& folder,
                                        const Wait& wait) {
  const KubeRun run = runOf(id);
  const kube::KubeAddress address{kube::kinds::kConfigMaps, run.name_space, run.object(), ""};
  const auto record = client_->get(address);
  if (!record) return record.error();
  const std::string home =
      record->at("metadata").value("annotations", json::object()).value(annotations::kOutput, "");
  if (home.empty()) return noOutput(id);
  const spec::Loaded loaded =
      spec::loadJobText("", record->value("data", json::object()).value(kJobKey, ""), {});
  if (!loaded.ok()) return Error(Code::kInvalid, "the record of " + run.text() + " is damaged");
  // What a run that goes on has written so far is not what it will bring home.
  const auto before = readKubeRun(*client_, run);
  if (!before) return before.error();
  const bool whole = before->state.outcome == gang::Outcome::kSucceeded;
  bundle::FileReceiver files((std::filesystem::path(folder) / home).lexically_normal());
  if (auto fetched = fetch(id, loaded.job.output, files, wait); !fetched) {
    return std::move(fetched).error();
  }
  if (!whole) return files.target();
  // From now on nobody waits for it any more.
  const json patch = {{"metadata", {{"annotations", {{annotations::kArrived, "true"}}}}}};
  if (auto told = client_->patch(address, patch); !told) return std::move(told).error();
  return files.target();
}

Status KubeRuns::fetch(const runs::RunId& id, const std::string& path, bundle::FileReceiver& files,
                       const Wait& wait) {
  const KubeRun run = runOf(id);
  const auto record = readRecord(*client_, run);
  if (!record) return record.error();
  const spec::Loaded loaded = spec::loadJobText("", record->job, {});
  if (!loaded.ok()) return Error(Code::kInvalid, "the record of " + run.text() + " is damaged");
  VolumePod pod(*client_, run, loaded.job);
  if (auto found = pod.find(wait); !found) return found;
  return pod.send((std::filesystem::path(kPodWorkdir) / path).lexically_normal(), files);
}

}  // namespace dure::kubernetes
