#include "cli/cluster_pipeline.h"

#include <ostream>

#include <fmt/core.h>

#include "backend/kubernetes/cluster_service.h"
#include "backend/kubernetes/kube_runs.h"
#include "backend/kubernetes/record.h"
#include "backend/kubernetes/run_objects.h"
#include "kube/access.h"
#include "pipeline/load.h"
#include "pipeline/record_view.h"

namespace dure::cli {
namespace {

using namespace std::chrono_literals;

constexpr const char* kInPod = "in-cluster";
// Their pods have half a minute by themselves, and nodes may be slow.
constexpr auto kServicesEnd = 120s;
constexpr auto kEndPoll = 200ms;

}  // namespace

spec::Job jobLike(const pipeline::Pipeline& pipeline) {
  spec::Job job;
  job.kubernetes = pipeline.kubernetes;
  return job;
}

Result<std::unique_ptr<kube::KubeClient>> clientFor(const kubernetes::ClusterPlace& place) {
  auto access = kube::findAccess(
      {.context = place.context == kInPod ? "" : place.context, .name_space = place.name_space});
  if (!access) return std::move(access).error();
  return std::make_unique<kube::KubeClient>(*std::move(access));
}

ClusterPipeline::ClusterPipeline(runs::RunStore& store, const runs::RunId& id,
                                 const pipeline::Pipeline& pipeline, kubernetes::ClusterPlace place,
                                 std::unique_ptr<kube::KubeClient> client)
    : store_(store),
      id_(id),
      client_(std::move(client)),
      place_(std::move(place)),
      pipeline_(pipeline),
      volume_(*client_, place_, jobLike(pipeline_), store, id, true) {}

Result<std::unique_ptr<ClusterPipeline>> ClusterPipeline::open(runs::RunStore& store,
                                                               const runs::RunId& id) {
  const runs::RunPaths paths = store.paths(id);
  auto place = kubernetes::readPlace(paths);
  if (!place) return std::move(place).error();
  if (!*place) return std::unique_ptr<ClusterPipeline>();
  auto client = clientFor(**place);
  if (!client) return std::move(client).error();
  // What it names may have gone since; what it says has not.
  const pipeline::Pipeline pipeline = pipeline::loadPipelineFile(paths.pipeline(), {}).pipeline;
  return std::unique_ptr<ClusterPipeline>(
      new ClusterPipeline(store, id, pipeline, **place, *std::move(client)));
}

std::vector<std::string> ClusterPipeline::services(const std::string& step) const {
  std::vector<std::string> parts;
  for (const pipeline::Part& part : partsOf(pipeline_)) {
    const pipeline::Step& its_step = pipeline_.steps[part.step];
    if (its_step.kind != pipeline::StepKind::kService) continue;
    if (step.empty() || its_step.name == step || part.name == step) parts.push_back(part.name);
  }
  return parts;
}

Result<std::optional<runs::RunId>> ClusterPipeline::activeRun(const std::string& part) {
  const auto active = kubernetes::findActiveRun(*client_, place_.name_space, place_.jobOf(part));
  if (!active) return active.error();
  if (!*active) return std::optional<runs::RunId>();
  return std::optional(runs::RunId{.name = (*active)->job, .number = (*active)->number});
}

Result<bool> ClusterPipeline::goesOn() {
  for (const std::string& part : services("")) {
    const auto view =
        kubernetes::viewService(*client_, place_, kubernetes::serviceName(pipeline_.name, part));
    if (!view) return view.error();
    if (view->there) return true;
  }
  for (const pipeline::Part& part : partsOf(pipeline_)) {
    const auto active = activeRun(part.name);
    if (!active) return active.error();
    if (*active) return true;
  }
  return false;
}

Result<bool> ClusterPipeline::end(bool at_once) {
  auto any = goesOn();
  if (!any) return any;
  for (const std::string& part : services("")) {
    auto stopped =
        kubernetes::stopService(*client_, place_, kubernetes::serviceName(pipeline_.name, part));
    if (!stopped) return std::move(stopped).error();
  }
  auto client = clientFor(place_);
  if (!client) return std::move(client).error();
  kubernetes::KubeRuns runs(*std::move(client));
  for (const pipeline::Part& part : partsOf(pipeline_)) {
    const auto active = activeRun(part.name);
    if (!active) return active.error();
    if (!*active) continue;
    const auto stopped = runs.stop(**active, at_once, Wait());
    if (!stopped) return stopped.error();
  }
  if (auto noted = noteServicesStopped(); !noted) return std::move(noted).error();
  const Wait wait(kServicesEnd);
  while (true) {
    const auto left = goesOn();
    if (!left) return left.error();
    if (!*left) return any;
    if (!wait.pause(kEndPoll)) {
      return Error(Code::kUnavailable,
                   "timed out while stopping the services of " + id_.text() + " in the cluster");
    }
  }
}

// Otherwise the record would call them ready for ever: nobody here watches them.
Status ClusterPipeline::noteServicesStopped() {
  // Somebody may be resuming it: then it is his to say.
  const auto owned = store_.take(id_);
  if (!owned) return {};
  auto journal = pipeline::StepJournal::open(owned->paths);
  if (!journal) return std::move(journal).error();
  const pipeline::RecordView view = pipeline::readRecord(store_, id_, true);
  for (std::size_t i = 0; i < view.parts.size(); ++i) {
    const pipeline::PartState& state = view.states[i];
    if (state.status != pipeline::PartStatus::kReady) continue;
    auto written = journal->append(pipeline::StepEntry{.time = SystemClock().now(),
                                                       .part = view.parts[i].name,
                                                       .status = pipeline::PartStatus::kStopped,
                                                       .attempt = state.attempts,
                                                       .run = state.run});
    if (!written) return written;
  }
  return {};
}

Status ClusterPipeline::remove() {
  if (auto ended = end(true); !ended) return std::move(ended).error();
  auto client = clientFor(place_);
  if (!client) return std::move(client).error();
  kubernetes::KubeRuns runs(*std::move(client));
  for (const pipeline::Part& part : partsOf(pipeline_)) {
    const auto records =
        kubernetes::listRecords(*client_, place_.name_space, place_.jobOf(part.name));
    if (!records) return records.error();
    for (const kubernetes::KubeRecord& record : *records) {
      auto removed =
          runs.remove({.name = record.run.job, .number = record.run.number}, true, Wait());
      if (!removed && removed.error().code() != Code::kNotFound) return removed;
    }
  }
  return volume_.remove();
}

Status ClusterPipeline::serviceLogs(const std::string& part, bool follow,
                                    const std::function<void(std::string_view)>& take) {
  return kubernetes::serviceLogs(*client_, place_, kubernetes::serviceName(pipeline_.name, part),
                                 follow, take);
}

Status removePipeline(Context& context, runs::Runs& runs, const runs::RunId& id, bool force) {
  const auto run = runs.read(id);
  if (!run) return run.error();
  if (run->in_charge && !force) return runs::stillRunning(id);
  if (run->in_charge) {
    if (const auto stopped = runs.stop(id, false, Wait()); !stopped) return stopped.error();
  }
  auto store = openStore(context);
  if (!store) return {};
  const auto inCluster = [&]() -> Status {
    const auto pipeline = ClusterPipeline::open(*store, id);
    if (!pipeline) return pipeline.error();
    if (!*pipeline) return {};
    if (!force) {
      const auto goes_on = (*pipeline)->goesOn();
      if (!goes_on) return goes_on.error();
      if (*goes_on) return runs::stillRunning(id);
    }
    return (*pipeline)->remove();
  };
  if (Status removed = inCluster(); !removed) {
    if (!force) return removed;
    context.err << fmt::format("dure: warning: something of {} may be left in the cluster: {}\n",
                               id.text(), removed.error().message());
  }
  return runs.remove(id, force, Wait());
}

}  // namespace dure::cli
