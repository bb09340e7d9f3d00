#include "backend/kubernetes/kubernetes_backend.h"

#include <future>

#include "backend/kubernetes/scale_up.h"
#include "backend/kubernetes/test_cluster.h"

namespace dure::kubernetes {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr auto kSoon = 20s;
const kube::RequestMatch kStarting{.verb = "create", .plural = "pods"};

// A backend on a cluster in memory. What it tells the coordinator is kept as words: "placed 2",
// "taken worker-0: why", "gone worker-0".
class KubernetesBackendTest : public ClusterTest {
 protected:
  KubernetesBackendTest() {
    job_ = jobOf("name: train\nworkers: 2\nprogram: {command: [run], image: mine:1}\n");
    job_.timeouts.heartbeat = 50ms;
    job_.timeouts.stop = 50ms;
    const kube::KubeAddress owner = at(kube::kinds::kJobs, kRun.object());
    owner_ = ownerReference(api_.put(owner, {{"apiVersion", "batch/v1"}, {"kind", "Job"}}));
  }

  void listen() {
    backend_ = std::make_unique<KubernetesBackend>(
        loop_, client_,
        KubernetesBackend::Options{.run = kRun,
                                   .job = job_,
                                   .images = {.dure = "dure:1", .trainer = "trainer:1"},
                                   .owner = owner_,
                                   .address = "127.0.0.1",
                                   .sees_nodes = sees_nodes_,
                                   .times = times_});
    backend_->listen(
        {.placed =
             [this](const gang::Roster& roster) {
               roster_ = roster;
               told_.push_back("placed " + std::to_string(roster.workers));
             },
         .waits = [this](const std::string& why) { told_.push_back("waits: " + why); },
         .impossible = [this](const std::string& why) { told_.push_back("impossible: " + why); },
         .refused =
             [this](const std::string& task, const std::string& why, bool for_good) {
               told_.push_back("refused " + task + (for_good ? " for good: " : ": ") + why);
             },
         .taken =
             [this](const std::string& task, const std::string& why, bool by_program) {
               told_.push_back("taken " + task + (by_program ? " by its program: " : ": ") + why);
             },
         .gone = [this](const std::string& task) { told_.push_back("gone " + task); },
         .left = nullptr});
  }
  // A gang of two whose pods run.
  void runGang(int generation = 1) {
    if (!backend_) listen();
    startGang(generation);
    for (const char* task : {"worker-0", "worker-1"}) {
      const std::string name = kRun.pod(task, generation);
      ASSERT_TRUE(until([&] { return api_.has(podAt(name)); })) << name;
      kubelet_.run(name, backend_->nodeOf(task).empty() ? "node-1" : backend_->nodeOf(task));
      ASSERT_TRUE(until([&] { return !backend_->nodeOf(task).empty(); }));
    }
    told_.clear();
  }
  void startGang(int generation = 1) {
    told_.clear();
    backend_->place(generation, 2);
    ASSERT_TRUE(until([&] { return has("placed 2"); }));
    backend_->start(roster_, {.run = kRun.text(),
                              .generation = generation,
                              .coordinator = "127.0.0.1:1",
                              .secret = "secret"});
  }
  // Runs the loop until it is so.
  bool until(const std::function<bool()>& so) {
    const auto deadline = std::chrono::steady_clock::now() + kSoon;
    while (!so()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      loop_.run_one_for(5ms);
    }
    return true;
  }
  bool has(const std::string& words) const {
    return std::any_of(told_.begin(), told_.end(), [&](const std::string& sentence) {
      return sentence.find(words) != std::string::npos;
    });
  }
  static std::string podOf(const std::string& task, int generation = 1) {
    return kRun.pod(task, generation);
  }

  asio::io_context loop_;
  spec::Job job_;
  json owner_;
  bool sees_nodes_ = false;
  BackendTimes times_{.first_look = 10ms,
                      .last_look = 20ms,
                      .doubt = 50ms,
                      .margin = 100ms,
                      .last_words = 10ms,
                      .tick = 5ms,
                      .look_in_charge = 10ms};
  std::vector<std::string> told_;
  gang::Roster roster_;
  std::unique_ptr<KubernetesBackend> backend_;
};

// ---- placing

TEST_F(KubernetesBackendTest, PlansTheGangAndHoldsTheLockUntilItsPodsAreThere) {
  sees_nodes_ = true;
  job_.resources.cpus = 6;
  for (const char* node : {"node-1", "node-2"}) kubelet_.addNode(node);
  listen();
  api_.hold(kStarting);
  startGang();
  ASSERT_TRUE(api_.eventually([&] { return api_.held() == 1; }));
  EXPECT_EQ(api_.get(kLease)["spec"]["holderIdentity"], "team/train-2");
  api_.letGo();
  ASSERT_TRUE(api_.eventually([&] { return !api_.has(kLease); }));
  EXPECT_THAT(api_.names(kube::kinds::kPods), ElementsAre(podOf("worker-0"), podOf("worker-1")));
  EXPECT_NE(backend_->nodeOf("worker-0"), backend_->nodeOf("worker-1")) << "one does not hold both";
  EXPECT_EQ(api_.get(podAt(podOf("worker-0")))["metadata"]["annotations"][annotations::kNode],
            backend_->nodeOf("worker-0"));
}

TEST_F(KubernetesBackendTest, AGangWithoutAPlaceAsksTheAutoscalerForNodes) {
  sees_nodes_ = true;
  job_.autoscale = true;
  job_.resources.cpus = 6;
  kubelet_.addNode("node-1");
  listen();
  backend_->place(1, 2);
  const auto asking = [&] {
    return api_.count({.verb = "create", .plural = "pods", .name = "*scale-up*"}) == 2;
  };
  ASSERT_TRUE(until(asking));
  ASSERT_TRUE(until([&] { return has("asks for nodes with 2 pods"); }));
  const std::vector<std::string> pods = api_.names(kube::kinds::kPods);
  ASSERT_EQ(pods.size(), 2u);
  const json pod = api_.get(podAt(pods[0]));
  EXPECT_EQ(pod["metadata"]["annotations"][annotations::kSafeToEvict], "true");
  EXPECT_EQ(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"], "6");
  EXPECT_FALSE(pod["spec"].contains("affinity")) << "any node will do";
  // One fits on the node that there is, and holds it; the autoscaler adds another for the second.
  kubelet_.run(pods[0], "node-1");
  kubelet_.addNode("node-2");
  kubelet_.run(pods[1], "node-2");
  ASSERT_TRUE(until([&] { return has("placed 2"); })) << "they make room for the gang";
  ASSERT_TRUE(until([&] { return api_.names(kube::kinds::kPods).empty(); }));
  backend_->start(roster_, {.run = kRun.text(), .generation = 1, .coordinator = "127.0.0.1:1"});
  ASSERT_TRUE(until([&] { return api_.names(kube::kinds::kPods).size() == 2; }));
  const json task = api_.get(podAt(podOf("worker-0")));
  EXPECT_EQ(task["metadata"]["annotations"][annotations::kSafeToEvict], "false");
}

TEST_F(KubernetesBackendTest, PodsThatAskInVainAreWithdrawnAndAskAgain) {
  sees_nodes_ = true;
  job_.autoscale = true;
  job_.timeouts.autoscale = 200ms;
  job_.resources.cpus = 6;
  listen();
  backend_->place(1, 2);
  const auto pods = [&] { return api_.names(kube::kinds::kPods).size(); };
  for (int round = 0; round < 2; ++round) {
    ASSERT_TRUE(until([&] { return pods() == 2; })) << round;
    ASSERT_TRUE(until([&] { return pods() == 0; })) << round;
  }
  EXPECT_FALSE(has("impossible")) << "no node is large enough yet";
}

TEST_F(KubernetesBackendTest, GpusThatThePlanSplitsAreAskedForOneByOne) {
  job_.gpus = 3;
  const auto pods = scaleUpPods(kRun, job_, {.dure = "dure:1", .trainer = ""}, owner_);
  ASSERT_EQ(pods.size(), 3u);
  EXPECT_EQ(pods[2]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"], "1");
}

TEST_F(KubernetesBackendTest, WithoutASightOfNodesTheSchedulerChooses) {
  listen();
  startGang();
  ASSERT_TRUE(api_.eventually([&] { return api_.names(kube::kinds::kPods).size() == 2; }));
  EXPECT_FALSE(api_.get(podAt(podOf("worker-0")))["spec"].contains("affinity"));
  EXPECT_EQ(api_.count({.plural = "leases"}), 0);
}

TEST_F(KubernetesBackendTest, AGangThatDoesNotFitWaitsForANodeAndLetsOthersPlan) {
  sees_nodes_ = true;
  job_.resources.cpus = 6;
  kubelet_.addNode("node-1");
  listen();
  backend_->place(1, 2);
  ASSERT_TRUE(until([&] { return has("waits: "); }));
  ASSERT_TRUE(api_.eventually([&] { return !api_.has(kLease); }));
  kubelet_.addNode("node-2");
  ASSERT_TRUE(until([&] { return has("placed 2"); }));
}

TEST_F(KubernetesBackendTest, LabelsThatNoNodeHasAreSaidToBeImpossible) {
  sees_nodes_ = true;
  job_.nodes.selector = {{"disk", "tape"}};
  kubelet_.addNode("node-1");
  listen();
  backend_->place(1, 2);
  ASSERT_TRUE(until([&] { return has("impossible: "); }));
  EXPECT_THAT(told_.back(), HasSubstr("disk"));
  ASSERT_TRUE(api_.eventually([&] { return !api_.has(kLease); }));
}

TEST_F(KubernetesBackendTest, TroubleWithTheApiDelaysThePlacing) {
  struct Case {
    const char* name;
    kube::RequestMatch match;
    int status;  // 0: the reply gets lost
    const char* told;
  };
  sees_nodes_ = true;
  kubelet_.addNode("node-1");
  for (const Case& c :
       {Case{
            "nodes refused", {.verb = "list", .plural = "nodes"}, 403, "needs the cluster's nodes"},
        Case{"pods refused", {.verb = "list", .plural = "pods"}, 403, "waits: "},
        Case{"lock refused", {.verb = "create", .plural = "leases"}, 500, "waits: "},
        Case{"lock taken silently", {.verb = "create", .plural = "leases"}, 0, "waits: "}}) {
    if (c.status == 0) {
      api_.loseReply(c.match);
    } else {
      api_.answer(c.match, c.status, 3);
    }
    told_.clear();
    listen();
    backend_->place(1, 2);
    ASSERT_TRUE(until([&] { return has("placed 2"); })) << c.name;
    EXPECT_TRUE(has(c.told)) << c.name;
    backend_.reset();
    api_.endTrouble();
    EXPECT_FALSE(api_.has(kLease)) << c.name;
  }
}

// ---- starting

TEST_F(KubernetesBackendTest, EveryPodIsMadeOnceWhateverHappensToTheReplies) {
  listen();
  api_.loseReply(kStarting);
  api_.answer(kStarting, 500);
  api_.hangUp(kStarting);
  api_.answer(kStarting, 409);
  api_.answer(kStarting, 429);
  startGang();
  ASSERT_TRUE(until([&] { return api_.names(kube::kinds::kPods).size() == 2; }));
  EXPECT_THAT(told_, ElementsAre("placed 2"));
}

TEST_F(KubernetesBackendTest, APodThatIsNotAllowedEndsTheGangAndFreesTheLock) {
  sees_nodes_ = true;
  kubelet_.addNode("node-1");
  for (const int status : {403, 422}) {
    told_.clear();
    listen();
    api_.answer(kStarting, status);
    startGang();
    // The last rank's pod is the first to be made.
    ASSERT_TRUE(until([&] { return has("refused worker-1 for good: "); })) << status;
    ASSERT_TRUE(api_.eventually([&] { return !api_.has(kLease); }));
    EXPECT_THAT(api_.names(kube::kinds::kPods), IsEmpty()) << "no half gang";
    backend_.reset();
  }
}

TEST_F(KubernetesBackendTest, APodThatCannotRunIsRefused) {
  struct Case {
    const char* name;
    std::function<void(const std::string& pod)> fate;
    const char* told;
  };
  for (const Case& c : std::vector<Case>{
           {"no image name", [&](auto& pod) { kubelet_.wait(pod, "InvalidImageName"); },
            "refused worker-0 for good: cannot pull image mine:1"},
           {"no image", [&](auto& pod) { kubelet_.wait(pod, "ErrImagePull", "404"); },
            "refused worker-0 for good: cannot pull image mine:1"},
           {"no node",
            [&](auto& pod) {
              kubelet_.cannotPlace(
                  pod, "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity.");
            },
            "refused worker-0 for good: 0/1 nodes"},
           {"no program",
            [&](auto& pod) {
              kubelet_.bind(pod, "node-1");
              kubelet_.end(pod, 128, "StartError", "no such file");
            },
            "refused worker-0 for good: its container"}}) {
    listen();
    startGang();
    ASSERT_TRUE(until([&] { return api_.names(kube::kinds::kPods).size() == 2; })) << c.name;
    c.fate(podOf("worker-0"));
    EXPECT_TRUE(until([&] { return has(c.told); })) << c.name;
    EXPECT_FALSE(has("worker-1")) << c.name;
    backend_.reset();
    for (const std::string& pod : api_.names(kube::kinds::kPods)) api_.erase(podAt(pod));
  }
}

TEST_F(KubernetesBackendTest, ANodeThatIsNotThereAnyMoreIsThePlansFault) {
  sees_nodes_ = true;
  kubelet_.addNode("node-1");
  listen();
  startGang();
  ASSERT_TRUE(until([&] { return api_.names(kube::kinds::kPods).size() == 2; }));
  kubelet_.cannotPlace(podOf("worker-0"),
                       "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity.");
  EXPECT_TRUE(until([&] { return has("refused worker-0: 0/1"); })) << "another plan may do";
}

TEST_F(KubernetesBackendTest, AnImageThatComesAfterAllIsNoReasonToGiveUp) {
  times_.doubt = std::chrono::hours(1);
  listen();
  startGang();
  ASSERT_TRUE(until([&] { return api_.names(kube::kinds::kPods).size() == 2; }));
  kubelet_.bind(podOf("worker-0"), "node-1");
  kubelet_.wait(podOf("worker-0"), "ErrImagePull");
  kubelet_.run(podOf("worker-0"));
  ASSERT_TRUE(until([&] { return backend_->nodeOf("worker-0") == "node-1"; }));
  EXPECT_FALSE(has("refused"));
}

// ---- what becomes of pods

TEST_F(KubernetesBackendTest, TellsWhatBecameOfAPod) {
  struct Case {
    const char* name;
    std::function<void(const std::string& pod)> fate;
    std::vector<std::string> told;
  };
  for (const Case& c : std::vector<Case>{
           {"success", [&](auto& pod) { kubelet_.end(pod, 0); }, {"gone worker-0"}},
           {"failure", [&](auto& pod) { kubelet_.end(pod, 1); }, {"gone worker-0"}},
           {"out of memory",
            [&](auto& pod) { kubelet_.end(pod, 137, "OOMKilled"); },
            {"taken worker-0 by its program: its pod ran out of memory; resources.memory gives it "
             "more",
             "gone worker-0"}},
           {"evicted",
            [&](auto& pod) { kubelet_.evict(pod, "Evicted", "low on disk"); },
            {"taken worker-0: Evicted: low on disk", "gone worker-0"}},
           {"drained",
            [&](auto& pod) {
              api_.remove(podAt(pod));
              ASSERT_TRUE(until([&] { return has("taken"); }));
              kubelet_.end(pod, 0);
            },
            {"taken worker-0: its pod is being deleted (node-1)", "gone worker-0"}}}) {
    runGang();
    c.fate(podOf("worker-0"));
    EXPECT_TRUE(until([&] { return has("gone worker-0"); })) << c.name;
    EXPECT_EQ(told_, c.told) << c.name;
    backend_.reset();
    for (const std::string& pod : api_.names(kube::kinds::kPods)) api_.erase(podAt(pod));
  }
}

// Somebody forces its deletion, or garbage collection does: its processes may go on.
TEST_F(KubernetesBackendTest, APodThatVanishesIsOnlyGoneWhenItsAgentSaysSoOrItsLeaseIsOver) {
  for (const bool watched : {true, false}) {
    for (const bool agent_tells : {true, false}) {
      runGang();
      if (!watched) {
        // What happens while nobody watches is found out from what is there.
        api_.forbid({.verb = "list", .plural = "pods"});
        api_.forgetVersions();
        ASSERT_TRUE(api_.eventually([&] { return api_.watches() == 0; }));
      }
      api_.erase(podAt(podOf("worker-0")));
      api_.permitAll();
      ASSERT_TRUE(until([&] { return has("taken worker-0: its pod was deleted"); }));
      if (agent_tells) backend_->finished("worker-0");
      EXPECT_TRUE(until([&] { return has("gone worker-0"); }));
      EXPECT_EQ(told_.size(), 2u) << testing::PrintToString(told_);
      backend_.reset();
      api_.erase(podAt(podOf("worker-1")));
    }
  }
}

TEST_F(KubernetesBackendTest, AnAgentThatHadEndedBeforeItsPodVanishedIsGoneAtOnce) {
  times_.margin = std::chrono::hours(1);
  runGang();
  backend_->finished("worker-0");
  api_.erase(podAt(podOf("worker-0")));
  EXPECT_TRUE(until([&] { return has("gone worker-0"); }));
  EXPECT_THAT(told_, ElementsAre("gone worker-0"));
}

TEST_F(KubernetesBackendTest, AfterALostNodeTheGangIsPlacedElsewhere) {
  sees_nodes_ = true;
  job_.resources.cpus = 6;
  for (const char* node : {"node-1", "node-2"}) kubelet_.addNode(node);
  runGang();
  const std::string lost = backend_->nodeOf("worker-0"), kept = backend_->nodeOf("worker-1");
  kubelet_.giveUp(podOf("worker-0"), "NodeLost");
  EXPECT_TRUE(until([&] { return has("gone worker-0"); }));
  EXPECT_THAT(told_.front(), HasSubstr("taken worker-0: NodeLost"));
  kubelet_.end(podOf("worker-1"));
  EXPECT_TRUE(until([&] { return has("gone worker-1"); }));
  EXPECT_TRUE(api_.eventually([&] { return !api_.has(podAt(podOf("worker-0"))); }));
  kubelet_.addNode("node-3");
  startGang(2);
  EXPECT_NE(backend_->nodeOf("worker-0"), lost);
  EXPECT_NE(backend_->nodeOf("worker-1"), lost);
}

TEST_F(KubernetesBackendTest, WhatIsKilledIsDeletedAndGoneWhenItsKubeletSaysSo) {
  times_.margin = std::chrono::hours(1);
  runGang();
  backend_->kill("worker-0");
  const auto deleting = [&] {
    return api_.get(podAt(podOf("worker-0"))).contains("/metadata/deletionTimestamp"_json_pointer);
  };
  ASSERT_TRUE(until(deleting));
  EXPECT_FALSE(has("gone"));
  kubelet_.end(podOf("worker-0"), 137);
  EXPECT_TRUE(until([&] { return has("gone worker-0"); }));
  EXPECT_THAT(told_, ElementsAre("gone worker-0")) << "nobody is told of what he asked for";
}

TEST_F(KubernetesBackendTest, WhoseAgentHasFinishedIsGoneWhenKilledAndKeepsItsLastWords) {
  times_.margin = std::chrono::hours(1);
  runGang();
  backend_->finished("worker-0");
  backend_->kill("worker-0");
  EXPECT_THAT(told_, ElementsAre("gone worker-0")) << "however slow its kubelet is";
  backend_->kill("worker-1");
  ASSERT_TRUE(until([&] { return api_.count({.verb = "delete", .plural = "pods"}) > 0; }));
  EXPECT_FALSE(
      api_.get(podAt(podOf("worker-0"))).contains("/metadata/deletionTimestamp"_json_pointer));
}

TEST_F(KubernetesBackendTest, ADeletionThatDoesNotGetThroughIsTriedAgain) {
  runGang();
  api_.answer({.verb = "delete", .plural = "pods"}, 500, 2);
  backend_->kill("worker-0");
  EXPECT_TRUE(until([&] { return api_.count({.verb = "delete", .plural = "pods"}) >= 3; }));
}

TEST_F(KubernetesBackendTest, WhatIsKilledBeforeItWasMadeIsGone) {
  listen();
  backend_->place(1, 2);
  ASSERT_TRUE(until([&] { return has("placed 2"); }));
  times_.margin = std::chrono::hours(1);
  backend_->kill("worker-0");
  EXPECT_TRUE(until([&] { return has("gone worker-0"); }));
}

TEST_F(KubernetesBackendTest, WordsOfTheLastGenerationStayReadable) {
  runGang(1);
  for (const char* task : {"worker-0", "worker-1"}) kubelet_.end(podOf(task, 1), 1);
  runGang(2);
  for (const char* task : {"worker-0", "worker-1"}) kubelet_.end(podOf(task, 2), 1);
  runGang(3);
  EXPECT_TRUE(api_.eventually([&] { return !api_.has(podAt(podOf("worker-0", 1))); }));
  EXPECT_TRUE(api_.has(podAt(podOf("worker-0", 2))));
}

TEST_F(KubernetesBackendTest, NothingIsMissedWhenWatchesBreak) {
  runGang();
  api_.cutStreams();
  kubelet_.end(podOf("worker-0"), 1);
  EXPECT_TRUE(until([&] { return has("gone worker-0"); }));
  api_.forgetVersions();
  kubelet_.end(podOf("worker-1"), 0);
  EXPECT_TRUE(until([&] { return has("gone worker-1"); }));
  EXPECT_EQ(told_.size(), 2u);
}

// ---- managers before and after

TEST_F(KubernetesBackendTest, BeginsWhenNothingOfTheManagerBeforeIsLeft) {
  runGang();
  kubelet_.end(podOf("worker-1"));
  backend_.reset();
  backend_ = std::make_unique<KubernetesBackend>(
      loop_, client_, KubernetesBackend::Options{.run = kRun, .job = job_, .times = times_});
  auto begun = std::async(std::launch::async, [&] { return backend_->begin({}); });
  const auto deleting = [&] {
    return api_.get(podAt(podOf("worker-0"))).contains("/metadata/deletionTimestamp"_json_pointer);
  };
  ASSERT_TRUE(api_.eventually(deleting));
  EXPECT_EQ(begun.wait_for(0s), std::future_status::timeout);
  kubelet_.end(podOf("worker-0"));
  EXPECT_TRUE(begun.get());
  EXPECT_THAT(api_.names(kube::kinds::kPods), ElementsAre(podOf("worker-1")));
}

// Its pod is gone, but nobody has seen it end: its lease must run out first.
TEST_F(KubernetesBackendTest, WaitsForTasksThatTheJournalKnowsAndNobodySawEnd) {
  kube::KubeClient hasty(api_.access(), Duration{50});
  gang::RunState before;
  before.generation = 1;
  before.tasks = {{.kind = gang::EntryKind::kJoined, .task = "worker-0"}};
  struct Case {
    const char* name;
    bool ended;
    bool waits;
  };
  for (const Case& c : {Case{"unseen", false, true}, Case{"told", true, false}}) {
    before.ended = c.ended;
    KubernetesBackend backend(
        loop_, hasty, KubernetesBackend::Options{.run = kRun, .job = job_, .times = times_});
    const auto began = std::chrono::steady_clock::now();
    ASSERT_TRUE(backend.begin(before)) << c.name;
    const auto lease = KubernetesBackend::longestAlone(job_) + job_.timeouts.heartbeat;
    EXPECT_EQ(std::chrono::steady_clock::now() - began > lease, c.waits) << c.name;
  }
}

TEST_F(KubernetesBackendTest, AfterTheRunPodsStayAsTheJobSays) {
  struct Case {
    spec::Clean clean;
    bool succeeded;
    std::vector<std::string> left;
  };
  const std::string chief = podOf("worker-0"), other = podOf("worker-1");
  for (const Case& c : std::vector<Case>{{spec::Clean::kAll, true, {}},
                                         {spec::Clean::kAll, false, {}},
                                         {spec::Clean::kWorkers, true, {chief}},
                                         {spec::Clean::kWorkers, false, {chief, other}},
                                         {spec::Clean::kNone, true, {chief, other}}}) {
    job_.clean = c.clean;
    runGang();
    for (const std::string& pod : {chief, other}) kubelet_.end(pod, c.succeeded ? 0 : 1);
    ASSERT_TRUE(backend_->cleanUp(c.succeeded));
    EXPECT_EQ(api_.names(kube::kinds::kPods), c.left) << static_cast<int>(c.clean) << c.succeeded;
    backend_.reset();
    for (const std::string& pod : api_.names(kube::kinds::kPods)) api_.erase(podAt(pod));
  }
}

}  // namespace
}  // namespace dure::kubernetes
