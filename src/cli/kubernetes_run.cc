#include "cli/kubernetes_run.h"

#include <signal.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include <fmt/core.h>

#include "backend/kubernetes/objects.h"
#include "backend/kubernetes/record.h"
#include "base/process.h"
#include "base/text.h"
#include "cli/kubernetes_runs.h"
#include "cli/outcome.h"
#include "cli/terminal_view.h"
#include "launch/folder.h"

namespace dure::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using namespace std::chrono_literals;

constexpr auto kPoll = 500ms;
// A manager that cannot start for so long never will.
constexpr auto kManagerPatience = 15s;
constexpr int kMostAttempts = 20;
// For the last words of pods that have ended.
constexpr Duration kDrain{5'000};

std::atomic<int> interrupts{0};

// True if what is written to `path` outlives the pod.
bool isKept(const Job& job, const std::string& path) {
  const fs::path whole = (fs::path(kPodWorkdir) / path).lexically_normal();
  for (const Volume& volume : allVolumes(job)) {
    const fs::path root = (fs::path(kPodWorkdir) / volume.path).lexically_normal();
    const auto [end, rest] = std::mismatch(root.begin(), root.end(), whole.begin(), whole.end());
    if (end == root.end() && !volume.read_only) return true;
  }
  return false;
}

// A native job needs its folder only for what it reads from there.
bool needsFolder(const Job& job) {
  if (!job.program.ship) return false;
  if (job.strategy != Strategy::kNative) return true;
  for (const std::string& path :
       {job.train.data.path, job.train.model.file, job.train.model.weights}) {
    if (!path.empty() && fs::path(path).is_relative() && !isKept(job, path)) return true;
  }
  return false;
}

// Where volumes lie in the folder: what is there now belongs to this machine, and must not be put
// over what is on the volume.
std::vector<std::string> volumePaths(const Job& job) {
  std::vector<std::string> paths;
  for (const Volume& volume : allVolumes(job)) {
    const fs::path path = fs::path(volume.path).lexically_normal();
    if (path.is_relative()) paths.push_back(path.has_filename() ? path : path.parent_path());
  }
  return paths;
}

// Everything that is created before the manager, and the manager last: what a run needs is there
// when it begins. The record owns the rest, so that it is enough to remove that.
class Creation {
 public:
  Creation(KubeClient& client, const Job& job) : client_(client), job_(job) {}

  Result<KubeRun> create() {
    std::string archive;
    if (needsFolder(job_)) {
      auto folder = packFolder(job_.program.workdir,
                               {.limit = job_.program.ship_limit, .without = volumePaths(job_)});
      if (!folder) return std::move(folder).error();
      archive = std::move(folder->archive);
    }
    Job inside = job_;
    inside.program.workdir = kPodWorkdir;
    run_ = {.name_space = client_.access().name_space, .job = job_.name, .number = 1};
    auto records = listRecords(client_, run_.name_space, job_.name);
    if (!records) return std::move(records).error();
    for (const KubeRecord& record : *records) {
      run_.number = std::max(run_.number, record.run.number + 1);
    }
    // Something of that name may be somebody else's, or be left of a run that is being removed.
    for (int attempt = 1;; ++attempt, ++run_.number) {
      if (auto made = createRecord(inside); !made) return std::move(made).error();
      const auto made = createRest(inside, archive);
      if (made) return run_;
      undo();
      if (made.error().code() != Code::kExists || attempt == kMostAttempts) return made.error();
    }
  }

 private:
  // By deleting what is ours for certain: the record, with which goes what it owns.
  void undo() {
    if (granted_) {
      static_cast<void>(client_.remove({kinds::kClusterRoles, "", run_.clusterObject(), ""}));
    }
    static_cast<void>(client_.remove({kinds::kConfigMaps, run_.name_space, run_.object(), ""},
                                     {.uid = record_.at("metadata").at("uid").get<std::string>()}));
  }

  // With this number, or the next that is free.
  Status createRecord(const Job& inside) {
    while (true) {
      const KubeObject object = recordObject(run_, inside);
      auto made = client_.create({object.kind, run_.name_space, "", ""}, object.object);
      if (made) {
        record_ = *std::move(made);
        return {};
      }
      if (made.error().code() != Code::kExists) return std::move(made).error();
      ++run_.number;
    }
  }

  Status createRest(const Job& inside, const std::string& archive) {
    const json owner = ownerReference(record_);
    for (const KubeObject& object : supportObjects(run_, inside, randomToken(), owner)) {
      if (auto made = put(object.kind, object.object); !made) return made;
    }
    for (json& piece : folderObjects(run_, archive)) {
      piece["metadata"]["ownerReferences"] = json::array({owner});
      if (auto made = put(kinds::kConfigMaps, piece); !made) return made;
    }
    // Who may not grant it has the scheduler place the pods.
    const auto granted = grantNodes();
    granted_ = static_cast<bool>(granted);
    if (!granted && job_.gpus > 0) {
      return Error(
          granted.error().code(),
          "gpus: how they are split is planned from all nodes, which the manager cannot be "
          "let see: " +
              granted.error().message());
    }
    const KubeObject manager = managerObject(run_, inside, imagesFromEnvironment(), owner);
    return put(manager.kind, manager.object);
  }

  Status grantNodes() {
    const auto owner = client_.get({kinds::kNamespaces, "", run_.name_space, ""});
    if (!owner) return owner.error();
    const auto role =
        client_.create({kinds::kClusterRoles}, clusterRole(run_, ownerReference(*owner)).object);
    if (!role) return role.error();
    const auto bound = client_.create({kinds::kClusterRoleBindings},
                                      clusterBinding(run_, ownerReference(*role)).object);
    if (bound) return {};
    static_cast<void>(client_.remove({kinds::kClusterRoles, "", run_.clusterObject(), ""}));
    return bound.error();
  }

  Status put(const KubeKind& kind, const json& object) {
    if (interrupts > 0) return Error(Code::kUnavailable, "interrupted");
    auto made = client_.create({kind, kind.namespaced ? run_.name_space : "", "", ""}, object);
    if (!made) return std::move(made).error();
    return {};
  }

  KubeClient& client_;
  const Job& job_;
  KubeRun run_;
  json record_;
  bool granted_ = false;
};

// Shows a run to the person who started it, as it would be shown if it ran here.
class Follower {
 public:
  Follower(Context& context, KubeClient& client, KubeRun run)
      : client_(client),
        run_(std::move(run)),
        view_(context.out, context.err, clock_, TerminalView::detect()),
        logs_(client, run_, std::nullopt, [this](int generation, int rank, std::string_view lines) {
          const std::lock_guard lock(mutex_);
          static_cast<void>(view_.output(generation, rank, lines));
        }) {}

  int follow() {
    const auto began = clock_.now();
    RunView run;
    std::size_t told = 0;
    int asked = 0;
    while (true) {
      if (const int now = interrupts; now > asked && askToStop(now > 1)) asked = now;
      auto read = readKubeRun(client_, run_);
      if (!read && read.error().code() == Code::kNotFound) {
        say(fmt::format("{} was removed", run_.text()));
        return kInterrupted;
      }
      if (read) {
        run = *std::move(read);
        for (; told < run.entries.size(); ++told) tellEntry(run.entries[told]);
        tick(run);
        const auto looked = logs_.look(true);
        if (!looked && looked.error().code() == Code::kDenied && !std::exchange(mute_, true)) {
          say(looked.error().message());
        }
        if (run.state.outcome) break;
        if (run.entries.empty() && managerIsHopeless()) {
          static_cast<void>(removeKubeRun(client_, run_));
          return kPlaceFailed;
        }
        if (run.status == "lost") {
          say(fmt::format("{} has lost its manager", run_.text()));
          return kPlaceFailed;
        }
      } else {
        tellTrouble(read.error().message());
      }
      std::this_thread::sleep_for(kPoll);
    }
    logs_.drain(kDrain);
    return conclude(run, std::chrono::duration_cast<Duration>(clock_.now() - began));
  }

 private:
  // Says why, if it is.
  bool managerIsHopeless() {
    const ManagerProblem problem = managerProblem(client_, run_);
    const auto now = std::chrono::steady_clock::now();
    if (!problem.hopeless) hopeful_ = now;
    if (now - hopeful_ < kManagerPatience) return false;
    say(fmt::format("the manager of {} cannot start: {}", run_.text(), problem.why));
    return true;
  }

  void say(const std::string& sentence) {
    const std::lock_guard lock(mutex_);
    view_.say(sentence);
  }

  void tellEntry(const Entry& entry) {
    trouble_.clear();
    const std::lock_guard lock(mutex_);
    view_.entry(entry);
  }

  // Once: the run goes on whether we see it or not.
  void tellTrouble(const std::string& why) {
    if (std::exchange(trouble_, why).empty()) say(why + "; trying again");
  }

  void tick(const RunView& run) {
    const std::lock_guard lock(mutex_);
    if (!run.report.empty()) static_cast<void>(view_.metric(run.state.generation, 0, run.report));
    view_.tick(fmt::format("{} · {} task{} up", run.status, run.state.joined,
                           run.state.joined == 1 ? "" : "s"));
  }

  // False if it has to be asked again.
  bool askToStop(bool at_once) {
    const json patch = {
        {"metadata", {{"annotations", {{annotations::kStop, at_once ? "now" : "gently"}}}}}};
    const auto asked =
        client_.patch({kinds::kConfigMaps, run_.name_space, run_.object(), ""}, patch);
    if (!asked && asked.error().code() == Code::kUnavailable) return false;
    say(at_once ? "stopping at once" : "stopping; once more to stop at once");
    return true;
  }

  int conclude(const RunView& run, Duration took) {
    const Outcome outcome = *run.state.outcome;
    const std::lock_guard lock(mutex_);
    view_.say(describeEnd(run_.text(), outcome, run.state.reason, run.state.generation - 1, took));
    // What never could run leaves nothing behind.
    const bool ran = std::any_of(run.entries.begin(), run.entries.end(), [](const Entry& entry) {
      return entry.kind == EntryKind::kRunning;
    });
    if (outcome == Outcome::kPlaceFailed && !ran) static_cast<void>(removeKubeRun(client_, run_));
    return exitCode(outcome);
  }

  KubeClient& client_;
  const KubeRun run_;
  SystemClock clock_;
  std::mutex mutex_;  // of the view
  TerminalView view_;
  std::string trouble_;
  bool mute_ = false;  // what the ranks print cannot be read, and that was said
  std::chrono::steady_clock::time_point hopeful_ = std::chrono::steady_clock::now();
  PodLogs logs_;  // its threads use the view
};

}  // namespace

Status checkForKubernetes(KubeClient& client, const Job& job) {
  if (job.program.image.empty() && job.strategy != Strategy::kNative) {
    return Error(Code::kInvalid,
                 "program.image: on Kubernetes a program runs in an image; name one, such as "
                 "python:3.11");
  }
  for (const auto& [field, path] :
       {std::pair("output", job.output), std::pair("checkpoint.path", job.checkpoint.path)}) {
    if (path.empty() || isKept(job, path)) continue;
    return Error(Code::kInvalid,
                 fmt::format("{}: {} is inside the pod and would be lost with it; put it on a "
                             "volume, such as volumes: [{{path: {}, claim: NAME}}]",
                             field, path, fs::path(path).begin()->string()));
  }
  for (const Volume& volume : allVolumes(job)) {
    if (volume.claim.empty()) continue;
    const auto claim = client.get({kinds::kClaims, client.access().name_space, volume.claim, ""});
    if (claim || claim.error().code() == Code::kDenied) continue;
    if (claim.error().code() != Code::kNotFound) return claim.error();
    return Error(Code::kInvalid, fmt::format("volumes: there is no claim {} in namespace {}",
                                             volume.claim, client.access().name_space));
  }
  if (job.timeouts.heartbeat.count() == 0) {
    return Error(
        Code::kInvalid,
        "timeouts.heartbeat: on Kubernetes a pod that is not heard of for so long is taken "
        "for lost, so it cannot be never; give a time, such as 30s");
  }
  if (job.gpus > 0) {
    for (const KubeKind& kind : {kinds::kNodes, kinds::kPods}) {
      const auto allowed = client.isAllowed("list", {kind, "", "", ""});
      if (!allowed) return allowed.error();
      if (*allowed) continue;
      return Error(Code::kDenied,
                   fmt::format("gpus: how {} GPUs are split is planned from all nodes, and you may "
                               "not list {} of the whole cluster; give workers and resources.gpus "
                               "instead",
                               job.gpus, kind.plural));
    }
  }
  return {};
}

int runOnKubernetes(Context& context, KubeClient& client, Job job,
                    const KubernetesRunOptions& options) {
  if (auto checked = checkForKubernetes(client, job); !checked) {
    context.fail(checked.error());
    return context.code;
  }
  const std::string wanted = job.name;
  for (int suffix = 2;; ++suffix) {
    const auto active = findActiveRun(client, client.access().name_space, job.name);
    if (!active) {
      context.fail(active.error());
      return context.code;
    }
    if (!*active) break;
    if (!options.ad_hoc) {
      context.mistake(fmt::format(
          "{} is running already; stop it with `dure stop {} --on kubernetes`, or choose another "
          "--name",
          (*active)->text(), (*active)->text()));
      return context.code;
    }
    job.name = fmt::format("{}-{}", wanted, suffix);
  }
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    signal(number, [](int) { ++interrupts; });
  }
  auto run = Creation(client, job).create();
  if (!run) {
    context.fail(run.error());
    return interrupts > 0 ? kInterrupted : context.code;
  }
  if (options.detach) {
    context.out << run->text() << "\n";
    return kDone;
  }
  signal(SIGPIPE, SIG_IGN);
  return Follower(context, client, *run).follow();
}

}  // namespace dure::cli
