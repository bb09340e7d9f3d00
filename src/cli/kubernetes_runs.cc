#include "cli/kubernetes_runs.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include <fmt/core.h>

#include "backend/kubernetes/pod_view.h"
#include "backend/kubernetes/record.h"
#include "base/text.h"
#include "spec/load.h"

namespace dure::cli {
namespace {

using nlohmann::json;
using namespace std::chrono_literals;

constexpr auto kPoll = 200ms;
constexpr auto kRemovalPatience = 2min;
// A manager that ended so often before it wrote a word will not do better.
constexpr int kHopelessEnds = 3;

kube::KubeAddress managerOf(const kubernetes::KubeRun& run) {
  return {kube::kinds::kJobs, run.name_space, run.object(), ""};
}

bool isAtWork(const json& job) {
  for (const json& condition :
       job.value("status", json::object()).value("conditions", json::array())) {
    const std::string type = condition.value("type", "");
    if ((type == "Complete" || type == "Failed") && condition.value("status", "") == "True") {
      return false;
    }
  }
  return !job.at("metadata").contains("deletionTimestamp");
}

// What keeps the pods of a generation from starting, or the manager if there are none.
std::string whyNotYet(const std::vector<json>& pods, int generation) {
  for (const json& pod : pods) {
    const kubernetes::PodView view = kubernetes::viewPod(pod);
    const bool manager = view.task.empty();
    // A manager that has ended has a successor.
    if (view.problem.empty() || (manager ? view.ended() : view.generation != generation)) continue;
    return fmt::format("{}: {}", manager ? "its manager" : view.task, view.problem);
  }
  return "";
}

bool isManager(const json& pod) {
  return pod.value("metadata", json::object())
             .value("labels", json::object())
             .value(kubernetes::labels::kPart, "") == "manager";
}

// Whoever may not read events asks what would become of the manager's pod.
ManagerProblem dryRun(kube::KubeClient& client, const kubernetes::KubeRun& run) {
  const auto job = client.get(managerOf(run));
  if (!job) return {};
  json pod = job->at("spec").at("template");
  pod["apiVersion"] = "v1";
  pod["kind"] = "Pod";
  pod["metadata"] = {{"name", run.object() + "-manager"}, {"namespace", run.name_space}};
  const auto made = client.create({kube::kinds::kPods, run.name_space, "", ""}, pod, true);
  if (made || (made.error().code() != Code::kDenied && made.error().code() != Code::kInvalid)) {
    return {};
  }
  return {made.error().message(), true};
}

}  // namespace

Result<std::vector<runs::RunView>> readKubeRuns(kube::KubeClient& client,
                                                const std::string& name_space) {
  auto records = kubernetes::listRecords(client, name_space);
  if (!records) return std::move(records).error();
  std::vector<runs::RunView> runs;
  for (const kubernetes::KubeRecord& record : *records) {
    auto run = readKubeRun(client, record.run);
    // It may have been removed since.
    if (!run && run.error().code() == Code::kNotFound) continue;
    if (!run) return std::move(run).error();
    runs.push_back(*std::move(run));
  }
  return runs;
}

runs::RunView viewOf(const kubernetes::KubeRun& run, const KubeRunObjects& objects) {
  runs::RunView view{
      .id = {.name = run.job, .number = run.number},
      .in_charge = objects.manager && isAtWork(*objects.manager),
      .place = fmt::format("configmap {} in namespace {}", run.object(), run.name_space)};
  spec::Loaded loaded = spec::loadJobText(
      "", objects.record->value("data", json::object()).value("job.yaml", ""), {});
  if (loaded.ok()) view.job = std::move(loaded.job);
  view.entries = kubernetes::entriesOf(objects.journal);
  runs::conclude(view);
  if (view.in_charge && !view.state.running && !view.state.outcome && view.state.reason.empty()) {
    view.state.reason = whyNotYet(objects.pods, view.state.generation);
  }
  if (objects.metrics) {
    const std::vector<std::string> reports = kubernetes::metricsIn(*objects.metrics);
    view.step = runs::lastStepOf(reports);
    view.losses = runs::lossesOf(reports);
    if (!reports.empty()) view.report = reports.back();
  }
  return view;
}

Result<runs::RunView> readKubeRun(kube::KubeClient& client, const kubernetes::KubeRun& run) {
  // The manager first: a run that ends while it is read is then seen as running, not as lost.
  KubeRunObjects objects;
  auto manager = client.get(managerOf(run));
  if (!manager && manager.error().code() != Code::kNotFound) return std::move(manager).error();
  if (manager) objects.manager = *std::move(manager);
  auto record = client.get({kube::kinds::kConfigMaps, run.name_space, run.object(), ""});
  if (!record) return std::move(record).error();
  objects.record = *std::move(record);
  auto journal = client.listAll({kube::kinds::kConfigMaps, run.name_space, "", ""},
                                {.labels = kubernetes::selectorOf(run, "journal")});
  if (!journal) return std::move(journal).error();
  objects.journal = *std::move(journal);
  auto metrics = client.get({kube::kinds::kConfigMaps, run.name_space, run.metrics(), ""});
  if (metrics) objects.metrics = *std::move(metrics);
  auto pods = client.listAll({kube::kinds::kPods, run.name_space, "", ""},
                             {.labels = kubernetes::selectorOf(run)});
  if (pods) objects.pods = *std::move(pods);
  return viewOf(run, objects);
}

Result<std::optional<kubernetes::KubeRun>> findActiveRun(kube::KubeClient& client,
                                                         const std::string& name_space,
                                                         const std::string& job) {
  auto records = kubernetes::listRecords(client, name_space, job);
  if (!records) return std::move(records).error();
  for (const kubernetes::KubeRecord& record : *records) {
    const auto manager = client.get(managerOf(record.run));
    if (!manager && manager.error().code() != Code::kNotFound) return manager.error();
    if (!manager || !isAtWork(*manager)) continue;
    auto run = kubernetes::readRecord(client, record.run);
    if (run && !gang::replay(run->entries).outcome) return std::optional(record.run);
  }
  return std::optional<kubernetes::KubeRun>();
}

std::optional<ManagerProblem> problemOfPods(const kubernetes::KubeRun& run,
                                            const std::vector<json>& pods) {
  int ended = 0;
  std::string last;
  for (const json& pod : pods) {
    if (!isManager(pod)) continue;
    const kubernetes::PodView view = kubernetes::viewPod(pod);
    last = view.name;
    if (view.ended()) {
      ++ended;  // and has a successor
    } else if (view.hopeless || view.doubtful) {
      return ManagerProblem{view.problem + "; DURE_IMAGE names the image of Dure", true};
    } else if (!view.problem.empty()) {
      return ManagerProblem{view.problem, view.unplaceable};
    }
  }
  if (last.empty()) return std::nullopt;
  if (ended < kHopelessEnds) return ManagerProblem{};
  return ManagerProblem{fmt::format("it ended {} times; `kubectl -n {} logs {}` tells why", ended,
                                    run.name_space, last),
                        true};
}

ManagerProblem managerProblem(kube::KubeClient& client, const kubernetes::KubeRun& run) {
  const auto pods = client.listAll({kube::kinds::kPods, run.name_space, "", ""},
                                   {.labels = kubernetes::selectorOf(run, "manager")});
  if (!pods) return {};
  if (auto problem = problemOfPods(run, *pods)) return *problem;
  // Without a pod only the Job's events tell, such as that a quota is used up.
  const auto events = client.listAll(
      {kube::kinds::kEvents, run.name_space, "", ""},
      {.fields = fmt::format("involvedObject.name={},reason=FailedCreate", run.object())});
  if (!events && events.error().code() == Code::kDenied) return dryRun(client, run);
  if (!events || events->empty()) return {};
  return {events->back().value("message", ""), true};
}

Status stopKubeRun(kube::KubeClient& client, const kubernetes::KubeRun& run, bool at_once) {
  const json patch = {
      {"metadata",
       {{"annotations", {{kubernetes::annotations::kStop, at_once ? "now" : "gently"}}}}}};
  const auto asked =
      client.patch({kube::kinds::kConfigMaps, run.name_space, run.object(), ""}, patch);
  if (!asked) return asked.error();
  while (true) {
    const auto manager = client.get(managerOf(run));
    if (!manager && manager.error().code() == Code::kNotFound) return {};
    if (!manager && manager.error().code() != Code::kUnavailable) return manager.error();
    const auto record = kubernetes::readRecord(client, run);
    if (record && gang::replay(record->entries).outcome) return {};
    if (manager && !isAtWork(*manager)) return {};
    if (record && record->entries.empty()) {
      const ManagerProblem problem = managerProblem(client, run);
      if (!problem.why.empty()) {
        return Error(Code::kUnavailable,
                     fmt::format("the manager of {} has not started: {}", run.text(), problem.why));
      }
    }
    std::this_thread::sleep_for(kPoll);
  }
}

Status removeKubeRun(kube::KubeClient& client, const kubernetes::KubeRun& run) {
  // Not everybody may; whoever granted it may take it back.
  static_cast<void>(client.remove({kube::kinds::kClusterRoles, "", run.clusterObject(), ""}));
  for (const kube::KubeAddress& address :
       {managerOf(run),
        kube::KubeAddress{kube::kinds::kConfigMaps, run.name_space, run.object(), ""}}) {
    if (auto removed = client.remove(address); !removed) return removed;
  }
  const auto deadline = std::chrono::steady_clock::now() + kRemovalPatience;
  while (true) {
    std::vector<std::string> left;
    for (const kube::KubeKind& kind : {kube::kinds::kPods, kube::kinds::kConfigMaps}) {
      const auto objects =
          client.listAll({kind, run.name_space, "", ""}, {.labels = kubernetes::selectorOf(run)});
      if (!objects) return objects.error();
      for (const json& object : *objects) {
        left.push_back(
            fmt::format("{}/{}", kind.plural, object.at("metadata").at("name").get<std::string>()));
      }
    }
    if (left.empty()) return {};
    if (std::chrono::steady_clock::now() > deadline) {
      return Error(Code::kUnavailable,
                   fmt::format("{} is being removed, but {} stay{}; is their node away?",
                               run.text(), join(left, ", "), left.size() == 1 ? "s" : ""));
    }
    std::this_thread::sleep_for(kPoll);
  }
}

}  // namespace dure::cli
