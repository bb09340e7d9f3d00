#include "backend/kubernetes/kubernetes_backend.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <set>

#include <fmt/core.h>

#include "backend/kubernetes/cluster_inventory.h"
#include "backend/kubernetes/scale_up.h"
#include "base/log.h"
#include "base/wait.h"
#include "gang/layout.h"

namespace dure::kubernetes {
namespace {

using nlohmann::json;
using namespace std::chrono_literals;

// Why there is no place may change with every move of another job; it is told as often as this.
constexpr auto kToldAgain = 10s;
constexpr int kHeartbeatsAlone = 4;
// A node that has not told what became of a pod may be gone, although the cluster still calls it
// ready: that takes it 40 seconds to change its mind. For so long the gang is placed elsewhere if
// it can be.
constexpr auto kSilence = 2min;
constexpr const char* kPart = "kubernetes";
constexpr const char* kDeleted = "its pod was deleted, and nobody saw it end";

// The tasks that had programs when the journal was last written.
std::set<std::string> tasksLeft(const gang::RunState& before) {
  std::set<std::string> tasks;
  if (before.ended) return tasks;
  for (const gang::Entry& entry : before.tasks) {
    if (entry.kind == gang::EntryKind::kJoined) tasks.insert(entry.task);
  }
  return tasks;
}

}  // namespace

KubernetesBackend::KubernetesBackend(asio::io_context& loop, kube::KubeClient& client,
                                     Options options)
    : loop_(loop),
      client_(client),
      options_(std::move(options)),
      lock_(client, kPlacementNamespace, options_.run.name_space + "/" + options_.run.object()),
      timer_(loop) {}

KubernetesBackend::~KubernetesBackend() {
  *alive_ = false;
  watcher_.request_stop();
  worker_.request_stop();
}

void KubernetesBackend::listen(Handlers handlers) {
  handlers_ = std::move(handlers);
  worker_ = std::jthread([this](const std::stop_token& stop) { work(stop); });
  watcher_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
  look();
}

Result<gang::Site> KubernetesBackend::survey() {
  return siteOf(options_.run, options_.job, options_.address);
}

// ---- the two threads

void KubernetesBackend::ask(std::function<void(const std::stop_token&)> what) {
  const std::lock_guard lock(mutex_);
  asked_.push_back(std::move(what));
  wake_.notify_one();
}

void KubernetesBackend::work(const std::stop_token& stop) {
  while (true) {
    std::function<void(const std::stop_token&)> next;
    {
      std::unique_lock lock(mutex_);
      if (!wake_.wait(lock, stop, [this] { return !asked_.empty(); })) return;
      next = std::move(asked_.front());
      asked_.pop_front();
    }
    next(stop);
  }
}

void KubernetesBackend::tell(std::function<void()> what) {
  asio::post(loop_, [alive = alive_, what = std::move(what)] {
    if (*alive) what();
  });
}

void KubernetesBackend::watch(const std::stop_token& stop) {
  kube::keepWatching(client_,
                     {.address = {kube::kinds::kPods, options_.run.name_space, "", ""},
                      .selector = {.labels = selectorOf(options_.run, "task")},
                      .replaced =
                          [this](std::vector<json>&& pods) {
                            tell([this, pods = std::move(pods)] { sawAll(pods); });
                          },
                      .changed =
                          [this](kube::WatchEvent event, json&& pod) {
                            tell([this, view = viewPod(pod), event] {
                              saw(view, event == kube::WatchEvent::kDeleted);
                            });
                          },
                      // The run goes on meanwhile: agents tell what matters.
                      .trouble = [](const std::optional<Error>&) {}},
                     stop);
}

// ---- placing and starting

void KubernetesBackend::place(int generation, int workers) {
  ask([this, generation, workers, avoided = silentNodes()](const std::stop_token& stop) {
    findPlace(generation, workers, avoided, stop);
  });
}

std::set<std::string> KubernetesBackend::silentNodes() {
  std::erase_if(silent_, [](const auto& node) { return Clock::now() - node.second > kSilence; });
  std::set<std::string> names;
  for (const auto& [name, since] : silent_) names.insert(name);
  return names;
}

void KubernetesBackend::findPlace(int generation, int workers, const std::set<std::string>& avoided,
                                  const std::stop_token& stop) {
  if (!options_.sees_nodes) {
    // The scheduler chooses a node for each.
    return tell([this, generation, workers] {
      placed(generation, gang::makeRoster(options_.job, workers), {});
    });
  }
  plan::Request request = plan::makeRequest(options_.job);
  request.most -= options_.job.workers.max - workers;
  auto pause = options_.times.first_look;
  std::optional<Clock::time_point> told;
  std::optional<ScaleUp> scale_up;
  std::function<bool(const json&)> makes_room;
  if (options_.job.autoscale) {
    scale_up.emplace(client_, options_.run, options_.job, options_.images, options_.owner);
    makes_room = [&](const json& pod) { return scale_up->isOurs(pod); };
  }
  while (!stop.stop_requested()) {
    std::string why;
    const auto waits = [this](const std::string& holder) {
      tell([this, why = fmt::format("waiting until {} has been placed", holder)] {
        handlers_.waits(why);
      });
    };
    if (auto locked = lock_.acquire(stop, waits); !locked) {
      why = locked.error().message();
    } else if (const auto inventory = readInventory(client_, options_.job.nodes, makes_room);
               !inventory) {
      why = inventory.error().message();
    } else {
      const auto found = plan::placeElsewhere(request, *inventory, avoided);
      if (const auto* placement = std::get_if<plan::Placement>(&found)) {
        // The lock stays ours until the pods are there.
        const gang::Roster roster =
            gang::makeRoster(options_.job, gang::layoutOf(options_.job, *placement));
        return tell([this, generation, roster, nodes = gang::nodesOf(roster, *placement)] {
          placed(generation, roster, nodes);
        });
      }
      const auto& shortage = std::get<plan::Shortage>(found);
      // Nodes that were there once may come back.
      const bool hopeless = !shortage.never.empty() && !scale_up;
      if (hopeless && generation == 1) {
        lock_.release();
        return tell([this, why = shortage.never] { handlers_.impossible(why); });
      }
      why = shortage.waiting();
      if (scale_up) why += "; " + scale_up->ask();
    }
    lock_.release();
    if (!told || Clock::now() - *told > kToldAgain) {
      told = Clock::now();
      tell([this, why] { handlers_.waits(why); });
    }
    if (!sleepFor(pause, stop)) return;
    pause = std::min(pause * 2, options_.times.last_look);
  }
}

void KubernetesBackend::placed(int generation, const gang::Roster& roster,
                               std::map<std::string, std::string> nodes) {
  generation_ = generation;
  members_.clear();
  for (const gang::Task& task : roster.tasks) {
    const std::string& node = nodes[task.name()];
    members_[task.name()].planned = node;
    logInfo(kPart, "places {} of generation {} on {}", task.name(), generation,
            node.empty() ? "a node of the scheduler's choice" : node);
  }
  ask([this, generation](const std::stop_token&) { removeOld(generation); });
  handlers_.placed(roster);
}

void KubernetesBackend::start(const gang::Roster& roster, const gang::JoinOptions& join) {
  std::vector<Starting> starting;
  for (const gang::Task& task : roster.tasks) {
    starting.push_back({.task = task.name(),
                        .pod = podOf({.run = options_.run,
                                      .job = options_.job,
                                      .images = options_.images,
                                      .task = task,
                                      .join = join,
                                      .node = members_.at(task.name()).planned,
                                      .owner = options_.owner})});
  }
  // Workers first, the chief last.
  std::reverse(starting.begin(), starting.end());
  ask([this, starting = std::move(starting)](const std::stop_token& stop) {
    createAll(starting, stop);
  });
}

void KubernetesBackend::createAll(const std::vector<Starting>& tasks, const std::stop_token& stop) {
  for (const Starting& task : tasks) {
    auto created = createOne(task.pod, stop);
    if (stop.stop_requested()) break;
    logInfo(kPart, "creates the pod of {}: {}", task.task,
            created ? "done" : created.error().message());
    if (created) continue;
    const bool for_good = created.error().code() != Code::kUnavailable;
    tell([this, task = task.task, why = created.error().message(), for_good] {
      Member& member = members_[task];
      member.gone = true;
      member.told = true;
      handlers_.refused(task, why, for_good);
    });
    break;
  }
  lock_.release();
}

Status KubernetesBackend::createOne(const json& pod, const std::stop_token& stop) {
  while (true) {
    auto created = client_.create({kube::kinds::kPods, options_.run.name_space, "", ""}, pod);
    // It is there already if the reply to an earlier try got lost.
    if (created || created.error().code() == Code::kExists) return {};
    // A conflict is that of several pods that are counted against one quota.
    const Code code = created.error().code();
    if ((code != Code::kUnavailable && code != Code::kConflict) ||
        !sleepFor(options_.times.first_look, stop)) {
      return std::move(created).error();
    }
  }
}

// The words of the last generation stay readable; those before it have been told.
void KubernetesBackend::removeOld(int generation) {
  auto pods = client_.listAll({kube::kinds::kPods, options_.run.name_space, "", ""},
                              {.labels = selectorOf(options_.run, "task")});
  if (!pods) return;
  for (const json& pod : *pods) {
    const PodView view = viewPod(pod);
    if (view.generation >= generation - 1) continue;
    logInfo(kPart, "deletes pod {}, of an earlier generation", view.name);
    static_cast<void>(client_.remove({kube::kinds::kPods, options_.run.name_space, view.name, ""}));
  }
}

// ---- what becomes of them

void KubernetesBackend::kill(const std::string& task) {
  const auto found = members_.find(task);
  if (found == members_.end() || found->second.gone) return;
  Member& member = found->second;
  if (std::exchange(member.killed, true)) return;
  logInfo(kPart, "kills {}", task);
  // Its agent has said that no process is left; only the kubelet is slow to tell. The pod stays
  // with its last words.
  if (member.finished) return gone(task);
  // An agent that has lost us ends by itself, and its pod then stays with its last words.
  member.delete_at = Clock::now() + options_.times.last_words;
  if (!member.given_up_at) {
    member.given_up_at = Clock::now() + options_.job.timeouts.heartbeat + options_.times.margin;
  }
}

std::string KubernetesBackend::nodeOf(const std::string& task) {
  const auto found = members_.find(task);
  if (found == members_.end()) return "";
  return found->second.node.empty() ? found->second.planned : found->second.node;
}

void KubernetesBackend::finished(const std::string& task) {
  const auto found = members_.find(task);
  if (found == members_.end()) return;
  found->second.finished = true;
  if (found->second.vanished) gone(task);
}

std::chrono::milliseconds KubernetesBackend::longestTask() const {
  return std::max(options_.job.timeouts.heartbeat, options_.job.timeouts.stop) +
         options_.times.margin;
}

void KubernetesBackend::vanished(const std::string& task, const std::string& why) {
  Member& member = members_.at(task);
  if (member.finished) return gone(task);
  member.vanished = true;
  if (!member.given_up_at) member.given_up_at = Clock::now() + longestTask();
  if (!member.killed && !std::exchange(member.told, true)) handlers_.taken(task, why, false);
}

void KubernetesBackend::remove(const std::string& task) {
  logInfo(kPart, "deletes the pod of {}", task);
  ask([this, task, generation = generation_](const std::stop_token& stop) {
    const kube::KubeAddress pod{kube::kinds::kPods, options_.run.name_space,
                                options_.run.pod(task, generation), ""};
    while (true) {
      const auto removed = client_.remove(pod, {.grace_seconds = 1});
      if (removed || removed.error().code() != Code::kUnavailable) break;
      if (!sleepFor(options_.times.first_look, stop)) return;
    }
    // One that never came to be is not seen to go either.
    const auto left = client_.get(pod);
    if (left || left.error().code() != Code::kNotFound) return;
    tell([this, task, generation] {
      const auto member = members_.find(task);
      if (generation != generation_ || member == members_.end()) return;
      if (!member->second.seen) gone(task);
    });
  });
}

void KubernetesBackend::gone(const std::string& task) {
  const auto member = members_.find(task);
  if (member == members_.end() || std::exchange(member->second.gone, true)) return;
  logDebug(kPart, "nothing of {} is left", task);
  handlers_.gone(task);
}

void KubernetesBackend::sawAll(const std::vector<json>& pods) {
  std::map<std::string, PodView> views;
  for (const json& pod : pods) {
    PodView view = viewPod(pod);
    if (view.generation == generation_) views[view.task] = std::move(view);
  }
  for (const auto& [task, view] : views) saw(view, false);
  // What was there once and is not any more went while nobody watched.
  std::vector<std::string> missing;
  for (const auto& [task, member] : members_) {
    if (member.seen && !views.contains(task)) missing.push_back(task);
  }
  for (const std::string& task : missing) vanished(task, kDeleted);
}

void KubernetesBackend::saw(const PodView& pod, bool deleted) {
  if (pod.generation != generation_) return;
  const auto found = members_.find(pod.task);
  if (found == members_.end() || found->second.gone) return;
  Member& member = found->second;
  member.seen = true;
  member.node = pod.node;
  logDebug(kPart, "sees the pod of {}: {}{}{}{}", pod.task, deleted ? "deleted" : pod.phase,
           pod.node.empty() ? "" : " on " + pod.node, pod.problem.empty() ? "" : ": ", pod.problem);
  // Its agent's silence may have been noticed before; what only the node knows is told then, too.
  const bool news = pod.by_program || !member.killed;
  if (!pod.problem.empty() && pod.phase == "Failed" && !member.told && news) {
    member.told = true;
    if (pod.hopeless) {
      // Nothing of it ever ran.
      member.gone = true;
      return handlers_.refused(pod.task, pod.problem, true);
    }
    handlers_.taken(pod.task, pod.problem, pod.by_program);
  }
  if (deleted || pod.ended()) {
    if (pod.nothing_runs) return gone(pod.task);
    return vanished(pod.task, deleted ? kDeleted : "its node has given it up");
  }
  if (pod.deleting && !member.killed && !std::exchange(member.told, true)) {
    return handlers_.taken(pod.task,
                           fmt::format("its pod is being deleted{}",
                                       pod.node.empty() ? "" : fmt::format(" ({})", pod.node)),
                           false);
  }
  if (pod.hopeless) return refuse(pod.task, pod.problem);
  const bool doubtful = pod.doubtful || pod.unplaceable;
  member.doubt = doubtful ? pod.problem : "";
  // The plan bound it to its node, which may have gone since: another plan finds another.
  member.doubt_is_plans = pod.unplaceable && !member.planned.empty();
  if (!doubtful) {
    member.doubtful_since.reset();
  } else if (!member.doubtful_since) {
    member.doubtful_since = Clock::now();
  }
}

void KubernetesBackend::refuse(const std::string& task, const std::string& why) {
  Member& member = members_.at(task);
  if (member.killed || std::exchange(member.told, true)) return;
  remove(task);
  // Nothing of it ever ran.
  member.gone = true;
  handlers_.refused(task, why, !member.doubt_is_plans);
}

// Pods on nodes that do not answer are never seen to end. When their agents' leases have run out,
// nothing of them can be left.
void KubernetesBackend::look() {
  std::vector<std::string> over;
  std::map<std::string, std::string> refused;
  for (auto& [task, member] : members_) {
    if (member.gone) continue;
    if (member.doubtful_since && Clock::now() - *member.doubtful_since > options_.times.doubt) {
      refused[task] = member.doubt;
    }
    if (member.given_up_at && Clock::now() > *member.given_up_at) over.push_back(task);
    if (!member.delete_at || Clock::now() < *member.delete_at) continue;
    member.delete_at.reset();
    remove(task);
  }
  for (const auto& [task, why] : refused) refuse(task, why);
  for (const std::string& task : over) {
    if (const std::string node = nodeOf(task); !node.empty()) silent_[node] = Clock::now();
    logInfo(kPart, "gives {} up: its agent's lease has run out", task);
    ask([this, name = options_.run.pod(task, generation_)](const std::stop_token&) {
      static_cast<void>(client_.remove({kube::kinds::kPods, options_.run.name_space, name, ""},
                                       {.grace_seconds = 0}));
    });
    gone(task);
  }
  timer_.expires_after(options_.times.tick);
  // A timer that has expired cannot be cancelled any more: its handler may be called after us.
  timer_.async_wait([this, alive = alive_](const boost::system::error_code& error) {
    if (!error && *alive) look();
  });
}

std::chrono::milliseconds KubernetesBackend::longestAlone(const spec::Job& job) {
  return kHeartbeatsAlone * job.timeouts.heartbeat;
}

// Pods on nodes that do not answer are not seen to end, nor are those whose objects somebody has
// deleted. From the moment we took the pen:
// - a manager before us goes on until it has been alone for longestAlone(), finds that out when a
//   request that is under way fails, and looks only every look_in_charge;
// - its agents, whose beats it has answered until then, go on for a lease;
// - the margin is for clocks that do not run alike and machines that are slow.
Status KubernetesBackend::begin(const gang::RunState& before) {
  const auto deadline = Clock::now() + longestAlone(options_.job) + client_.patience() +
                        options_.times.look_in_charge + options_.job.timeouts.heartbeat +
                        options_.times.margin;
  std::set<std::string> unseen = tasksLeft(before);
  while (true) {
    auto pods = client_.listAll({kube::kinds::kPods, options_.run.name_space, "", ""},
                                {.labels = selectorOf(options_.run, "task")});
    if (!pods) return std::move(pods).error();
    bool left = false;
    for (const json& pod : *pods) {
      const PodView view = viewPod(pod);
      if (view.ended() && view.nothing_runs) {
        if (view.generation == before.generation) unseen.erase(view.task);
        continue;
      }
      left = true;
      const int grace = Clock::now() > deadline ? 0 : 1;
      if (view.deleting && grace > 0) continue;
      logInfo(kPart, "deletes pod {}, which an earlier manager left", view.name);
      static_cast<void>(client_.remove({kube::kinds::kPods, options_.run.name_space, view.name, ""},
                                       {.grace_seconds = grace}));
    }
    if (!left && (unseen.empty() || Clock::now() > deadline)) return {};
    std::this_thread::sleep_for(options_.times.first_look);
  }
}

Status KubernetesBackend::cleanUp(bool succeeded) {
  // It may be looking for a place still.
  worker_.request_stop();
  if (worker_.joinable()) worker_.join();
  // An earlier manager may have died while it asked for nodes.
  if (options_.job.autoscale) {
    ScaleUp(client_, options_.run, options_.job, options_.images, options_.owner).withdraw();
  }
  auto pods = client_.listAll({kube::kinds::kPods, options_.run.name_space, "", ""},
                              {.labels = selectorOf(options_.run, "task")});
  if (!pods) return std::move(pods).error();
  // What the pods say of themselves: a manager that comes when the run is over knows no roster.
  int newest = 0;
  for (const json& pod : *pods) newest = std::max(newest, viewPod(pod).generation);
  for (const json& pod : *pods) {
    const PodView view = viewPod(pod);
    bool stays = view.ended();
    if (options_.job.clean == spec::Clean::kAll) stays = false;
    if (options_.job.clean == spec::Clean::kWorkers && succeeded) {
      stays = view.first && view.generation == newest;
    }
    if (stays) continue;
    logInfo(kPart, "deletes pod {}, of a run that is over", view.name);
    auto removed = client_.remove({kube::kinds::kPods, options_.run.name_space, view.name, ""});
    if (!removed) return removed;
  }
  return {};
}

}  // namespace dure::kubernetes
