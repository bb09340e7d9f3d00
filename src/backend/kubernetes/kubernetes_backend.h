#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "backend/kubernetes/names.h"
#include "backend/kubernetes/objects.h"
#include "backend/kubernetes/placement_lock.h"
#include "backend/kubernetes/pod_view.h"
#include "gang/backend.h"
#include "gang/journal.h"
#include "kube/client.h"
#include "net/asio.h"
#include "plan/place.h"

namespace dure::kubernetes {

struct BackendTimes {
  // From one look at the nodes to the next, while there is no place: from the first to the longest.
  std::chrono::milliseconds first_look{500};
  std::chrono::milliseconds last_look{5'000};
  std::chrono::milliseconds doubt{
      10'000};  // an image that cannot be pulled for so long is not there
  // Beyond an agent's lease, before its pod is removed although nobody has seen it end.
  std::chrono::milliseconds margin{10'000};
  std::chrono::milliseconds last_words{3'000};  // for a pod to end by itself before it is deleted
  std::chrono::milliseconds tick{500};
  // From one look whether a manager is still in charge to the next.
  std::chrono::milliseconds look_in_charge{5'000};
};

// Tasks as pods. What is asked of the API server is asked by a thread of its own, in order, and
// what happens to the pods is watched by another; all that is known is kept on the loop.
class KubernetesBackend : public gang::Backend {
 public:
  struct Options {
    KubeRun run;
    spec::Job job;
    KubeImages images;
    nlohmann::json owner;  // of the pods
    std::string address;   // of this process, for agents
    bool sees_nodes = false;
    BackendTimes times = {};
  };

  KubernetesBackend(asio::io_context& loop, kube::KubeClient& client, Options options);
  ~KubernetesBackend() override;

  // A manager that has not reached the API server for so long ends, and its agents with it: by then
  // the cluster may have taken it for lost and started another.
  static std::chrono::milliseconds longestAlone(const spec::Job& job);

  // Ends what an earlier manager of the run has left, and returns when nothing of it can be there:
  // every pod, and every task that had joined as the journal tells, was seen to end, or has
  // outlived all leases.
  Status begin(const gang::RunState& before);

  void listen(Handlers handlers) override;
  Result<gang::Site> survey() override;
  void place(int generation, int workers) override;
  bool choosesNodes() const override { return true; }
  void start(const gang::Roster& roster, const gang::JoinOptions& join) override;
  void kill(const std::string& task) override;
  std::string nodeOf(const std::string& task) override;
  void finished(const std::string& task) override;

  // After the run: deletes the pods that are not to stay, and returns when that is done.
  Status cleanUp(bool succeeded);

 private:
  using Clock = std::chrono::steady_clock;
  struct Member {
    std::string planned;  // node; empty: the scheduler chooses
    std::string node;     // that its pod is on
    bool gone = false;
    bool killed = false;
    bool told = false;            // that it is being taken away, or cannot start
    bool seen = false;            // its pod
    bool finished = false;        // says its agent: nothing of it is left but the agent itself
    bool vanished = false;        // its pod, and nobody saw its processes end
    std::string doubt;            // about whether it will ever start
    bool doubt_is_plans = false;  // where it was planned to go, not what the job asks for
    std::optional<Clock::time_point> doubtful_since;
    std::optional<Clock::time_point> delete_at;    // unless it has ended by itself
    std::optional<Clock::time_point> given_up_at;  // by then nothing of it can be left
  };

  struct Starting {
    std::string task;
    nlohmann::json pod;
  };

  void ask(std::function<void(const std::stop_token&)> what);
  void work(const std::stop_token& stop);
  void tell(std::function<void()> what);
  void watch(const std::stop_token& stop);

  std::set<std::string> silentNodes();
  void findPlace(int generation, int workers, const std::set<std::string>& avoided,
                 const std::stop_token& stop);
  void placed(int generation, const gang::Roster& roster, std::map<std::string, std::string> nodes);
  void createAll(const std::vector<Starting>& tasks, const std::stop_token& stop);
  Status createOne(const nlohmann::json& pod, const std::stop_token& stop);
  void removeOld(int generation);

  void sawAll(const std::vector<nlohmann::json>& pods);
  void saw(const PodView& pod, bool deleted);
  void gone(const std::string& task);
  // Its pod is gone or called ended, which its processes may not be.
  void vanished(const std::string& task, const std::string& why);
  // The longest that a task goes on whose agent may have been told to stop, or may not.
  std::chrono::milliseconds longestTask() const;
  void look();
  void remove(const std::string& task);
  void refuse(const std::string& task, const std::string& why);

  asio::io_context& loop_;
  kube::KubeClient& client_;
  const Options options_;
  PlacementLock lock_;
  Handlers handlers_;
  asio::steady_timer timer_;
  std::shared_ptr<bool> alive_ =
      std::make_shared<bool>(true);  // for what is on its way to the loop

  int generation_ = 0;
  std::map<std::string, Member> members_;
  std::map<std::string, Clock::time_point> silent_;  // nodes, and when they had not told of a pod

  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::deque<std::function<void(const std::stop_token&)>> asked_;
  std::jthread worker_;
  std::jthread watcher_;
};

}  // namespace dure::kubernetes
