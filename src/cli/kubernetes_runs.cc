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
// From the end of a container until the API server knows of it.
constexpr auto kEndIsSeen = 2s;

KubeAddress managerOf(const KubeRun& run) {
  return {kinds::kJobs, run.name_space, run.object(), ""};
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
std::string whyNotYet(KubeClient& client, const KubeRun& run, int generation) {
  const auto pods =
      client.listAll({kinds::kPods, run.name_space, "", ""}, {.labels = selectorOf(run)});
  if (!pods) return "";
  for (const json& pod : *pods) {
    const PodView view = viewPod(pod);
    const bool manager = view.task.empty();
    // A manager that has ended has a successor.
    if (view.problem.empty() || (manager ? view.ended() : view.generation != generation)) continue;
    return fmt::format("{}: {}", manager ? "its manager" : view.task, view.problem);
  }
  return "";
}

RunView viewOf(const KubeRecord& record, bool in_charge) {
  RunView view{.id = {.name = record.run.job, .number = record.run.number},
               .in_charge = in_charge,
               .place = fmt::format("configmap {} in namespace {}", record.run.object(),
                                    record.run.name_space)};
  Loaded loaded = loadJobText("", record.job, {});
  if (loaded.ok()) view.job = std::move(loaded.job);
  view.entries = record.entries;
  conclude(view);
  return view;
}

}  // namespace

Result<std::vector<RunView>> readKubeRuns(KubeClient& client, const std::string& name_space) {
  auto records = listRecords(client, name_space);
  if (!records) return std::move(records).error();
  std::vector<RunView> runs;
  for (const KubeRecord& record : *records) {
    auto run = readKubeRun(client, record.run);
    // It may have been removed since.
    if (!run && run.error().code() == Code::kNotFound) continue;
    if (!run) return std::move(run).error();
    runs.push_back(*std::move(run));
  }
  return runs;
}

Result<RunView> readKubeRun(KubeClient& client, const KubeRun& run) {
  // Asked first: a run that ends while it is read is then seen as running, not as lost.
  const auto manager = client.get(managerOf(run));
  if (!manager && manager.error().code() != Code::kNotFound) return manager.error();
  auto record = readRecord(client, run);
  if (!record) return std::move(record).error();
  RunView view = viewOf(*record, manager && isAtWork(*manager));
  if (view.in_charge && !view.state.running && !view.state.outcome && view.state.reason.empty()) {
    view.state.reason = whyNotYet(client, run, view.state.generation);
  }
  if (const auto reports = readMetrics(client, run)) {
    view.step = lastStepOf(*reports);
    view.losses = lossesOf(*reports);
    if (!reports->empty()) view.report = reports->back();
  }
  return view;
}

Result<std::optional<KubeRun>> findActiveRun(KubeClient& client, const std::string& name_space,
                                             const std::string& job) {
  auto records = listRecords(client, name_space, job);
  if (!records) return std::move(records).error();
  for (const KubeRecord& record : *records) {
    const auto manager = client.get(managerOf(record.run));
    if (!manager && manager.error().code() != Code::kNotFound) return manager.error();
    if (!manager || !isAtWork(*manager)) continue;
    auto run = readRecord(client, record.run);
    if (run && !replay(run->entries).outcome) return std::optional(record.run);
  }
  return std::optional<KubeRun>();
}

ManagerProblem managerProblem(KubeClient& client, const KubeRun& run) {
  const auto pods = client.listAll({kinds::kPods, run.name_space, "", ""},
                                   {.labels = selectorOf(run, "manager")});
  if (!pods) return {};
  int ended = 0;
  for (const json& pod : *pods) {
    const PodView view = viewPod(pod);
    if (view.ended()) {
      ++ended;  // and has a successor
    } else if (view.hopeless || view.doubtful) {
      return {view.problem + "; DURE_IMAGE names the image of Dure", true};
    } else if (!view.problem.empty()) {
      return {view.problem, false};
    }
  }
  if (ended >= kHopelessEnds) {
    return {fmt::format("it ended {} times; `kubectl -n {} logs {}` tells why", ended,
                        run.name_space, pods->front().at("metadata").at("name").get<std::string>()),
            true};
  }
  if (!pods->empty()) return {};
  // Without a pod only the Job's events tell, such as that a quota is used up.
  const auto events = client.listAll(
      {kinds::kEvents, run.name_space, "", ""},
      {.fields = fmt::format("involvedObject.name={},reason=FailedCreate", run.object())});
  if (!events || events->empty()) return {};
  return {events->back().value("message", ""), true};
}

Status stopKubeRun(KubeClient& client, const KubeRun& run, bool at_once) {
  const json patch = {
      {"metadata", {{"annotations", {{annotations::kStop, at_once ? "now" : "gently"}}}}}};
  const auto asked = client.patch({kinds::kConfigMaps, run.name_space, run.object(), ""}, patch);
  if (!asked) return asked.error();
  while (true) {
    const auto manager = client.get(managerOf(run));
    if (!manager && manager.error().code() == Code::kNotFound) return {};
    if (!manager && manager.error().code() != Code::kUnavailable) return manager.error();
    const auto record = readRecord(client, run);
    if (record && replay(record->entries).outcome) return {};
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

Status removeKubeRun(KubeClient& client, const KubeRun& run) {
  // Not everybody may; whoever granted it may take it back.
  static_cast<void>(client.remove({kinds::kClusterRoles, "", run.clusterObject(), ""}));
  for (const KubeAddress& address :
       {managerOf(run), KubeAddress{kinds::kConfigMaps, run.name_space, run.object(), ""}}) {
    if (auto removed = client.remove(address); !removed) return removed;
  }
  const auto deadline = std::chrono::steady_clock::now() + kRemovalPatience;
  while (true) {
    std::vector<std::string> left;
    for (const KubeKind& kind : {kinds::kPods, kinds::kConfigMaps}) {
      const auto objects =
          client.listAll({kind, run.name_space, "", ""}, {.labels = selectorOf(run)});
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

// ---- logs

struct PodLogs::Stream {
  std::string pod;
  std::string container;
  int generation = 0;
  std::vector<int> ranks;
  std::atomic<bool> done{false};
  std::jthread thread;
};

PodLogs::PodLogs(KubeClient& client, KubeRun run, std::optional<int> generation, Take take)
    : client_(client), run_(std::move(run)), generation_(generation), take_(std::move(take)) {}

PodLogs::~PodLogs() = default;

Status PodLogs::look(bool follow) {
  const auto pods = client_.listAll({kinds::kPods, run_.name_space, "", ""},
                                    {.labels = selectorOf(run_, "task")});
  if (!pods) return pods.error();
  std::vector<std::unique_ptr<Stream>> found;
  for (const json& pod : *pods) {
    const json& metadata = pod.at("metadata");
    const std::string name = metadata.at("name");
    const json labels = metadata.value("labels", json::object());
    const int generation = std::atoi(labels.value(labels::kGeneration, "0").c_str());
    if (streams_.contains(name) || (generation_ && *generation_ != generation)) continue;
    // There is nothing to read before the program has started.
    const std::string phase = pod.value("status", json::object()).value("phase", "");
    if (phase == "Pending" || phase.empty()) continue;
    auto stream = std::make_unique<Stream>();
    stream->pod = name;
    stream->container = labels.value(labels::kTask, "");
    stream->generation = generation;
    for (const std::string& rank :
         split(metadata.value("annotations", json::object()).value(annotations::kRanks, ""), ',')) {
      if (!rank.empty()) stream->ranks.push_back(std::atoi(rank.c_str()));
    }
    // A worker of MPI prints through its launcher.
    if (stream->ranks.empty()) continue;
    found.push_back(std::move(stream));
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    return std::pair(a->generation, a->ranks) < std::pair(b->generation, b->ranks);
  });
  for (auto& stream : found) {
    Stream& running = *(streams_[stream->pod] = std::move(stream));
    running.thread = std::jthread([this, &running, follow](const std::stop_token& stop) {
      read(running, follow, stop);
      running.done = true;
    });
    // One after the other, so that what has been printed comes rank by rank.
    if (!follow) running.thread.join();
  }
  const std::lock_guard lock(mutex_);
  if (denied_) return *denied_;
  return {};
}

void PodLogs::read(Stream& stream, bool follow, const std::stop_token& stop) {
  std::size_t told = 0;  // lines
  while (!stop.stop_requested()) {
    std::size_t seen = 0;
    std::string rest;
    const auto take = [&](std::string_view bytes) {
      rest += bytes;
      std::string_view left = rest;
      while (true) {
        const std::size_t end = left.find('\n');
        if (end == std::string_view::npos) break;
        std::string_view line = left.substr(0, end + 1);
        left.remove_prefix(end + 1);
        // After a broken connection everything comes once more.
        if (seen++ < told) continue;
        ++told;
        int rank = stream.ranks.front();
        if (stream.ranks.size() > 1 && line.starts_with('[')) {
          rank = std::atoi(line.data() + 1);
          line.remove_prefix(std::min(line.size(), line.find("] ") + 2));
        }
        const std::lock_guard lock(mutex_);
        take_(stream.generation, rank, line);
      }
      rest = std::string(left);
      return !stop.stop_requested();
    };
    const auto read = client_.logs(run_.name_space, stream.pod,
                                   {.container = stream.container, .follow = follow}, take, stop);
    if (!read && read.error().code() == Code::kNotFound) return;
    if (!read && read.error().code() == Code::kDenied) {
      const std::lock_guard lock(mutex_);
      denied_ = read.error();
      return;
    }
    // There may be nothing to read yet, or no way to its node: later, if there is a later.
    if (!read && !follow) return;
    // It also ends, as if that were all, when the node's kubelet goes away.
    if (read && (!follow || hasEnded(stream, stop))) return;
    std::this_thread::sleep_for(kPoll);
  }
}

bool PodLogs::hasEnded(const Stream& stream, const std::stop_token& stop) {
  const auto deadline = std::chrono::steady_clock::now() + kEndIsSeen;
  while (!stop.stop_requested() && std::chrono::steady_clock::now() < deadline) {
    const auto pod = client_.get({kinds::kPods, run_.name_space, stream.pod, ""});
    if (!pod && pod.error().code() == Code::kNotFound) return true;
    if (pod && viewPod(*pod).ended()) return true;
    std::this_thread::sleep_for(kPoll);
  }
  return stop.stop_requested();
}

void PodLogs::drain(Duration patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  for (const auto& [pod, stream] : streams_) {
    while (!stream->done && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(20ms);
    }
  }
}

}  // namespace dure::cli
