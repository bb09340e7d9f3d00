#include "cli/kubernetes_executor.h"

#include <signal.h>

#include <atomic>

#include <fmt/core.h>

#include "backend/kubernetes/kube_runs.h"
#include "backend/kubernetes/record.h"
#include "backend/kubernetes/run_creation.h"
#include "backend/kubernetes/run_objects.h"
#include "base/text.h"
#include "cli/outcome.h"
#include "runs/run_mirror.h"

namespace dure::cli {
namespace {

using namespace std::chrono_literals;
using pipeline::Left;
using pipeline::Progress;

// How often a service is looked at: until it is ready, and then.
constexpr auto kLookAtStart = 1s;
constexpr auto kLookLater = 10s;
constexpr std::size_t kLongestName = 1024;

// In the record of a part: the run in the cluster that it mirrors.
std::string mirroredFile(const runs::RunPaths& paths) { return paths.directory + "/mirrors"; }

std::atomic<int> stop_requests{0};

// SIGTERM asks gently, SIGQUIT does not.
void countStopRequests() {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    signal(number, [](int) { ++stop_requests; });
  }
  signal(SIGQUIT, [](int) { stop_requests += 2; });
}

// A mirror that asks the run to stop when this process is.
class PartFollower : public runs::Follower {
 public:
  PartFollower(runs::Runs& runs, runs::RunId id, runs::RunMirror& mirror)
      : runs_(runs), id_(std::move(id)), mirror_(mirror) {}

  void seen(const runs::RunView& run) override { mirror_.seen(run); }
  void output(int generation, int rank, std::string_view lines) override {
    mirror_.output(generation, rank, lines);
  }
  void trouble(const std::string& sentence) override { mirror_.trouble(sentence); }
  void tick() override {
    const int now = stop_requests;
    if (now <= asked_) return;
    const auto asked = runs_.askToStop(id_, now > 1);
    // What could not be asked is asked again.
    if (asked || asked.error().code() != Code::kUnavailable) asked_ = now;
  }

 private:
  runs::Runs& runs_;
  const runs::RunId id_;
  runs::RunMirror& mirror_;
  int asked_ = 0;
};

int failed(Context& context, const Error& error) {
  context.fail(error);
  return context.code;
}

// Follows the run to its end; its exit code.
int followToEnd(Context& context, kubernetes::KubeRuns& runs, const runs::RunId& id,
                const runs::RunPaths& paths) {
  auto mirror = runs::RunMirror::open(paths);
  if (!mirror) return failed(context, mirror.error());
  PartFollower follower(runs, id, *mirror);
  const auto run = runs.follow(id, follower, Wait());
  if (!run) {
    // What never could begin leaves nothing behind.
    if (run.error().code() == Code::kUnavailable) static_cast<void>(runs.remove(id, true, Wait()));
    failed(context, run.error());
    return kInfrastructureFailed;
  }
  if (!run->state.outcome) {
    context.err << fmt::format("dure: {} has lost its manager\n", id.text());
    return kInfrastructureFailed;
  }
  if (!mirror->status()) return failed(context, mirror->status().error());
  const auto reports = kubernetes::readMetrics(
      runs.client(),
      {.name_space = runs.client().access().name_space, .job = id.name, .number = id.number});
  if (reports && !reports->empty()) {
    auto written = replaceFile(paths.metrics(), join(*reports, "\n") + "\n");
    if (!written) return failed(context, written.error());
  }
  return exitCode(*run->state.outcome);
}

}  // namespace

KubernetesExecutor::KubernetesExecutor(const std::string& record,
                                       const pipeline::Pipeline& pipeline, kube::KubeClient& client,
                                       kubernetes::ClusterPlace place)
    : PartExecutor(record), pipeline_(pipeline), client_(client), place_(std::move(place)) {}

spec::Job KubernetesExecutor::inCluster(const pipeline::Attempt& attempt) const {
  spec::Job job = attempt.job;
  job.name = place_.jobOf(attempt.part);
  job.volumes.push_back({.path = kubernetes::ClusterPlace::kMount, .claim = place_.claim});
  if (job.program.image.empty() && !spec::runsTrainer(job)) {
    job.program.image = kubernetes::imagesFromEnvironment().trainer;
  }
  return job;
}

// The process that this one came from may be using its client's connections: this one has its own.
int KubernetesExecutor::carryOut(Context& context, const pipeline::Attempt& attempt,
                                 const runs::RunId& run, bool again) {
  countStopRequests();
  signal(SIGPIPE, SIG_IGN);
  kubernetes::KubeRuns runs(std::make_unique<kube::KubeClient>(client_.access()));
  const spec::Job job = inCluster(attempt);
  auto owned = again ? parts_.take(run) : parts_.create(attempt.job);
  if (!owned) return failed(context, owned.error());
  if (again) {
    const auto id = mirrored(runs.client(), run);
    if (!id) return failed(context, id.error());
    return followToEnd(context, runs, *id, owned->paths);
  }
  if (auto checked = kubernetes::checkRun(runs.client(), job); !checked) {
    return failed(context, checked.error());
  }
  const auto created = kubernetes::createRun(runs.client(), job, [] { return stop_requests > 0; });
  if (!created) {
    failed(context, created.error());
    return stop_requests > 0 ? kInterrupted : context.code;
  }
  auto noted = replaceFile(mirroredFile(owned->paths), created->text());
  if (!noted) return failed(context, noted.error());
  return followToEnd(context, runs, {.name = created->job, .number = created->number},
                     owned->paths);
}

Result<runs::RunId> KubernetesExecutor::mirrored(kube::KubeClient& client,
                                                 const runs::RunId& run) const {
  const auto noted = readFile(mirroredFile(parts_.paths(run)), kLongestName);
  if (noted) {
    const auto found = kubernetes::findRun(client, place_.name_space, *noted);
    if (!found) return found.error();
    return runs::RunId{.name = found->job, .number = found->number};
  }
  if (noted.error().code() != Code::kNotFound) return noted.error();
  // Whoever created it died before that was noted. The name is this part's alone.
  const auto active = kubernetes::findActiveRun(client, place_.name_space, place_.jobOf(run.name));
  if (!active) return active.error();
  if (!*active) return Error(Code::kNotFound, run.text() + " is not in the cluster");
  return runs::RunId{.name = (*active)->job, .number = (*active)->number};
}

Result<std::string> KubernetesExecutor::start(const pipeline::Attempt& attempt) {
  if (attempt.kind != pipeline::StepKind::kService) return PartExecutor::start(attempt);
  const kubernetes::ClusterService service{.pipeline = pipeline_.name,
                                           .part = attempt.part,
                                           .job = inCluster(attempt),
                                           .port = attempt.port,
                                           .ready = attempt.path,
                                           .type = attempt.type,
                                           .place = place_};
  if (auto started = kubernetes::startService(client_, service); !started) {
    return std::move(started).error();
  }
  services_.insert_or_assign(attempt.part, Deployed{});
  return service.name();
}

Progress KubernetesExecutor::look(const std::string& part) {
  const auto found = services_.find(part);
  if (found == services_.end()) return PartExecutor::look(part);
  Deployed& service = found->second;
  if (service.stopped) {
    services_.erase(found);
    return {.state = Progress::State::kStopped};
  }
  const auto now = SteadyClock::now();
  if (now < service.look_at) return service.progress;
  const auto view =
      kubernetes::viewService(client_, place_, kubernetes::serviceName(pipeline_.name, part));
  const bool was_ready = service.progress.state == Progress::State::kReady;
  service.look_at = now + (was_ready ? kLookLater : kLookAtStart);
  // Whatever keeps us from seeing it, it goes on.
  if (!view) return service.progress;
  if (!view->there) {
    services_.erase(found);
    return {.state = Progress::State::kFailed, .reason = "somebody has removed it"};
  }
  // What was ready once may be restarted by the cluster meanwhile.
  if (view->ready) {
    service.progress = {.state = Progress::State::kReady, .reason = view->address};
  } else if (!was_ready) {
    service.progress = {.state = Progress::State::kRunning, .reason = view->problem};
  }
  return service.progress;
}

void KubernetesExecutor::stop(const std::string& part, bool at_once) {
  const auto found = services_.find(part);
  if (found == services_.end()) return PartExecutor::stop(part, at_once);
  // What could not be stopped now is asked for again.
  found->second.stopped = static_cast<bool>(
      kubernetes::stopService(client_, place_, kubernetes::serviceName(pipeline_.name, part)));
}

Result<Left> KubernetesExecutor::recover(const pipeline::Attempt& attempt, const std::string& run) {
  if (attempt.kind == pipeline::StepKind::kService) {
    const auto view = kubernetes::viewService(
        client_, place_, kubernetes::serviceName(pipeline_.name, attempt.part));
    if (!view) return view.error();
    if (!view->there) return Left::kNothing;
    services_.insert_or_assign(attempt.part, Deployed{});
    return Left::kRuns;
  }
  const auto ours = parts_.find(run);
  if (!ours) return Left::kNothing;
  waitUntilNobodyIsInCharge(*ours);
  const auto id = mirrored(client_, *ours);
  if (!id) {
    if (id.error().code() == Code::kNotFound) return Left::kNothing;
    return id.error();
  }
  const auto view = kubernetes::readKubeRun(
      client_, {.name_space = place_.name_space, .job = id->name, .number = id->number});
  if (!view) return view.error();
  // One that has ended well is followed once more, to its end.
  const bool lives = view->in_charge && !view->state.outcome;
  return lives || view->state.outcome == gang::Outcome::kSucceeded ? Left::kResumable
                                                                   : Left::kNothing;
}

Status KubernetesExecutor::endStrays(const std::set<std::string>& keep) {
  std::set<std::string> kept;  // in the cluster
  for (const runs::RunId& run : parts_.list()) {
    if (!keep.contains(run.text())) continue;
    if (const auto id = mirrored(client_, run)) kept.insert(id->text());
  }
  kubernetes::KubeRuns runs(std::make_unique<kube::KubeClient>(client_.access()));
  for (const runs::RunId& run : parts_.list()) {
    if (keep.contains(run.text())) continue;
    waitUntilNobodyIsInCharge(run);
    const auto active =
        kubernetes::findActiveRun(client_, place_.name_space, place_.jobOf(run.name));
    if (!active) return active.error();
    if (!*active || kept.contains((*active)->text())) continue;
    const auto stopped =
        runs.stop({.name = (*active)->job, .number = (*active)->number}, true, Wait());
    if (!stopped) return stopped.error();
  }
  return {};
}

}  // namespace dure::cli
