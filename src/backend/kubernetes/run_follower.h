#pragma once

#include <chrono>
#include <mutex>
#include <optional>
#include <string>

#include "backend/kubernetes/pod_logs.h"
#include "backend/kubernetes/run_objects.h"
#include "backend/kubernetes/run_watch.h"
#include "base/wait.h"
#include "runs/runs.h"

namespace dure::kubernetes {

// Follows one run by watching its objects and reading the logs of its pods.
class RunFollower {
 public:
  RunFollower(kube::KubeClient& client, KubeRun run, runs::Follower& follower);

  // See runs::Runs::follow. Also Unavailable if the run's manager can never start.
  Result<runs::RunView> follow(const Wait& wait);

 private:
  using SteadyClock = std::chrono::steady_clock;

  // Whether it is over.
  Result<bool> look();
  void seen();
  std::optional<Error> denial();
  bool managerIsHopeless();
  void tellTrouble(const std::string& sentence);

  kube::KubeClient& client_;
  const KubeRun run_;
  std::mutex mutex_;  // of the follower
  runs::Follower& follower_;
  RunObjects objects_;  // as they were last seen
  bool stale_ = false;  // what they amount to is not known yet
  SteadyClock::time_point look_at_;
  std::optional<runs::RunView> current_;
  std::optional<SteadyClock::time_point> trouble_since_;
  bool trouble_told_ = false;
  bool mute_ = false;  // what the ranks print cannot be read, and that was said
  ManagerProblem problem_;
  std::chrono::seconds question_;  // until the next about a manager without a pod
  SteadyClock::time_point ask_at_;
  SteadyClock::time_point hopeful_ = SteadyClock::now();
  RunWatch watch_;
  PodLogs logs_;  // its threads call the follower
};

// What the watch comes to know, if it is news. `over` if the run has ended, or nobody is in charge
// of it; that is asked for once more, since its objects are not watched in one order. NotFound if
// it was removed.
struct FollowedRun {
  runs::RunView view;
  bool over = false;
};
Result<FollowedRun> followed(kube::KubeClient& client, const KubeRun& run,
                             const RunObjects& objects);

// Reads on, when the run is over, until the pods have said all, but no longer than this.
void readLastWords(kube::KubeClient& client, const KubeRun& run, RunWatch& watch, PodLogs& logs,
                   const Wait& wait);

}  // namespace dure::kubernetes
