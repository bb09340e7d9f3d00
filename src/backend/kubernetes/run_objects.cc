#include "backend/kubernetes/run_objects.h"

#include <fmt/core.h>

#include "backend/kubernetes/pod_view.h"
#include "backend/kubernetes/record.h"
#include "base/text.h"
#include "spec/load.h"

namespace dure::kubernetes {
namespace {

using nlohmann::json;

// A manager that ended so often before it wrote a word will not do better.
constexpr int kHopelessEnds = 3;

// What keeps the pods of a generation from starting, or the manager if there are none.
std::string whyNotYet(const std::vector<json>& pods, int generation) {
  for (const json& pod : pods) {
    const PodView view = viewPod(pod);
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
             .value(labels::kPart, "") == "manager";
}

// Whoever may not read events asks what would become of the manager's pod.
ManagerProblem dryRun(kube::KubeClient& client, const KubeRun& run) {
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

kube::KubeAddress managerOf(const KubeRun& run) {
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

runs::RunView viewOf(const KubeRun& run, const RunObjects& objects) {
  runs::RunView view{
      .id = {.name = run.job, .number = run.number},
      .in_charge = objects.manager && isAtWork(*objects.manager),
      .record = fmt::format("configmap {} in namespace {}", run.object(), run.name_space)};
  spec::Loaded loaded =
      spec::loadJobText("", objects.record->value("data", json::object()).value(kJobKey, ""), {});
  if (loaded.ok()) view.job = std::move(loaded.job);
  view.entries = entriesOf(objects.journal);
  runs::conclude(view);
  if (view.status == runs::RunStatus::kLost) view.advice = "its manager is gone";
  if (view.in_charge && !view.state.running && !view.state.outcome && view.state.reason.empty()) {
    view.state.reason = whyNotYet(objects.pods, view.state.generation);
  }
  if (objects.metrics) {
    const std::vector<std::string> reports = metricsIn(*objects.metrics);
    view.step = runs::lastStepOf(reports);
    view.losses = runs::lossesOf(reports);
    if (!reports.empty()) view.report = reports.back();
  }
  return view;
}

Result<runs::RunView> readKubeRun(kube::KubeClient& client, const KubeRun& run) {
  // The manager first: a run that ends while it is read is then seen as running, not as lost.
  RunObjects objects;
  auto manager = client.get(managerOf(run));
  if (!manager && manager.error().code() != Code::kNotFound) return std::move(manager).error();
  if (manager) objects.manager = *std::move(manager);
  auto record = client.get({kube::kinds::kConfigMaps, run.name_space, run.object(), ""});
  if (!record) return std::move(record).error();
  objects.record = *std::move(record);
  auto journal = client.listAll({kube::kinds::kConfigMaps, run.name_space, "", ""},
                                {.labels = selectorOf(run, "journal")});
  if (!journal) return std::move(journal).error();
  objects.journal = *std::move(journal);
  auto metrics = client.get({kube::kinds::kConfigMaps, run.name_space, run.metrics(), ""});
  if (metrics) objects.metrics = *std::move(metrics);
  auto pods =
      client.listAll({kube::kinds::kPods, run.name_space, "", ""}, {.labels = selectorOf(run)});
  if (pods) objects.pods = *std::move(pods);
  return viewOf(run, objects);
}

Result<std::optional<KubeRun>> findActiveRun(kube::KubeClient& client,
                                             const std::string& name_space,
                                             const std::string& job) {
  auto records = listRecords(client, name_space, job);
  if (!records) return std::move(records).error();
  for (const KubeRecord& record : *records) {
    const auto manager = client.get(managerOf(record.run));
    if (!manager && manager.error().code() != Code::kNotFound) return manager.error();
    if (!manager || !isAtWork(*manager)) continue;
    auto run = readRecord(client, record.run);
    if (run && !gang::replay(run->entries).outcome) return std::optional(record.run);
  }
  return std::optional<KubeRun>();
}

std::optional<ManagerProblem> problemOfPods(const KubeRun& run, const std::vector<json>& pods) {
  int ended = 0;
  std::string last;
  for (const json& pod : pods) {
    if (!isManager(pod)) continue;
    const PodView view = viewPod(pod);
    last = view.name;
    if (view.ended()) {
      ++ended;  // and has a successor
    } else if (view.hopeless || view.doubtful) {
      return ManagerProblem{
          fmt::format("{}; {} names the image of Dure", view.problem, variables::kImage), true};
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

ManagerProblem managerProblem(kube::KubeClient& client, const KubeRun& run) {
  const auto pods = client.listAll({kube::kinds::kPods, run.name_space, "", ""},
                                   {.labels = selectorOf(run, "manager")});
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

}  // namespace dure::kubernetes
