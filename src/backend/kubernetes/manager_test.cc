#include "backend/kubernetes/manager.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <future>
#include <mutex>
#include <thread>

#include "backend/kubernetes/test_runs.h"

namespace dure::kubernetes {
namespace {

using namespace std::chrono_literals;
using gang::EntryKind;
using gang::Outcome;
using nlohmann::json;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class Words : public ManagerView {
 public:
  void say(const std::string& sentence) override {
    const std::lock_guard lock(mutex_);
    said_.push_back(sentence);
  }
  void entry(const gang::Entry&) override {}
  Status output(int, int, std::string_view) override { return {}; }
  Status metric(int, int, std::string_view) override { return {}; }

  std::vector<std::string> said() {
    const std::lock_guard lock(mutex_);
    return said_;
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> said_;
};

// A manager on a cluster in memory, whose pods the test plays. No agent ever joins.
class ManagerTest : public RunsTest {
 protected:
  ManagerTest() {
    setenv(variables::kPodIp, "127.0.0.1", 1);
    setenv(variables::kSecret, "secret", 1);
    for (const char* node : {"node-1", "node-2"}) kubelet_.addNode(node);
  }
  ~ManagerTest() override {
    // Of a test that has failed.
    while (managers_ > 0) {
      kill(getpid(), SIGTERM);
      std::this_thread::sleep_for(50ms);
    }
    unsetenv(variables::kPodIp);
    unsetenv(variables::kSecret);
  }

  std::future<std::optional<Outcome>> manage(const KubeRun& run) {
    ++managers_;
    std::promise<std::optional<Outcome>> promise;
    auto managed = promise.get_future();
    threads_.emplace_back([this, run, promise = std::move(promise)]() mutable {
      kube::KubeClient client(api_.access(run.name_space), Duration{2'000});
      const auto outcome = manageRun(client, run, words_, times_);
      --managers_;
      promise.set_value(outcome);
    });
    return managed;
  }
  bool startsTasks(const KubeRun& run, int generation = 1) {
    return api_.eventually([&] {
      return api_.has(podAt(run.pod("worker-0", generation))) &&
             api_.has(podAt(run.pod("worker-1", generation)));
    });
  }
  // Plays the kubelet of a pod, which ends when it is deleted.
  bool endsWhenDeleted(const std::string& pod) {
    return api_.eventually([&] {
      if (api_.get(podAt(pod)).contains("/metadata/deletionTimestamp"_json_pointer)) {
        kubelet_.end(pod, 143);
      }
      return !api_.has(podAt(pod));
    });
  }
  // Plays kubelets, which end the pods that are being deleted, until the manager is done.
  std::optional<Outcome> finish(std::future<std::optional<Outcome>>& managed) {
    const auto deadline = std::chrono::steady_clock::now() + 30s;
    while (managed.wait_for(5ms) != std::future_status::ready) {
      if (std::chrono::steady_clock::now() > deadline) {
        ADD_FAILURE() << "the manager does not end";
        std::abort();
      }
      for (const json& pod : api_.all(kube::kinds::kPods)) {
        if (pod["metadata"].contains("deletionTimestamp"))
          kubelet_.end(pod["metadata"]["name"], 143);
      }
    }
    return managed.get();
  }
  void askToStop(const KubeRun& run, const char* how) {
    api_.change(mapAt(run.object()),
                [&](json& record) { record["metadata"]["annotations"][annotations::kStop] = how; });
  }
  // What is left of a run when everybody is done with it, apart from what says how it went.
  std::vector<std::string> pods() const { return api_.names(kube::kinds::kPods); }
  json job(const KubeRun& run) const { return api_.get(at(kube::kinds::kJobs, run.object())); }
  bool hasClusterRole(const KubeRun& run) const {
    return api_.has({kube::kinds::kClusterRoles, "", run.clusterObject(), ""});
  }
  Outcome lastOutcome(const KubeRun& run) {
    const auto journal = KubeJournal::open(loop_, client_, run, ownerOf(run));
    return gang::replay((*journal)->before()).outcome.value();
  }

  std::atomic<int> managers_ = 0;  // that are at work
  Words words_;
  ManagerTimes times_{.backend = {.first_look = 10ms,
                                  .last_look = 20ms,
                                  .doubt = 50ms,
                                  .margin = 100ms,
                                  .last_words = 10ms,
                                  .tick = 5ms,
                                  .look_in_charge = 10ms},
                      .readers_catch_up = 1ms,
                      .look_for_arrival = 10ms};
  std::vector<std::jthread> threads_;
};

TEST_F(ManagerTest, StopsTheGangWhenItsRecordSaysSo) {
  const KubeRun run = makeRun();
  auto managed = manage(run);
  ASSERT_TRUE(startsTasks(run));
  EXPECT_GT(job(run)["spec"]["backoffLimit"], 100) << "managers may come again";
  askToStop(run, "now");
  EXPECT_EQ(finish(managed), Outcome::kStopped);
  EXPECT_THAT(pods(), IsEmpty());
  EXPECT_EQ(lastOutcome(run), Outcome::kStopped);
  EXPECT_EQ(job(run)["spec"]["backoffLimit"], 0) << "the Job fails with this pod";
  EXPECT_FALSE(hasClusterRole(run));
}

TEST_F(ManagerTest, StopsARunAlsoIfTheWatchOfItsRecordBreaks) {
  const KubeRun run = makeRun();
  auto managed = manage(run);
  ASSERT_TRUE(startsTasks(run));
  api_.forgetVersions();
  api_.cutStreams();
  askToStop(run, "now");
  EXPECT_EQ(finish(managed), Outcome::kStopped);
}

TEST_F(ManagerTest, AnImageThatCannotBePulledEndsTheRunWithTheReason) {
  const KubeRun run = makeRun();
  auto managed = manage(run);
  ASSERT_TRUE(startsTasks(run));
  for (const char* task : {"worker-0", "worker-1"}) {
    kubelet_.wait(run.pod(task, 1), "ErrImagePull", "no such image");
  }
  EXPECT_EQ(finish(managed), Outcome::kInfrastructureFailed);
  EXPECT_THAT(words_.said(), Contains(HasSubstr("cannot pull image")));
}

TEST_F(ManagerTest, PodsThatAreEvictedAreReplacedByTheNextGeneration) {
  const KubeRun run = makeRun();
  auto managed = manage(run);
  ASSERT_TRUE(startsTasks(run));
  for (const char* task : {"worker-0", "worker-1"}) kubelet_.run(run.pod(task, 1));
  kubelet_.evict(run.pod("worker-1", 1), "Evicted", "low on memory");
  ASSERT_TRUE(endsWhenDeleted(run.pod("worker-0", 1)));
  ASSERT_TRUE(startsTasks(run, 2));
  askToStop(run, "now");
  EXPECT_EQ(finish(managed), Outcome::kStopped);
  EXPECT_EQ(api_.get(podAt(run.pod("worker-0", 2))), json());
}

TEST_F(ManagerTest, ASignalLeavesTheRunToTheNextManager) {
  const KubeRun run = makeRun();
  auto first = manage(run);
  ASSERT_TRUE(startsTasks(run));
  ASSERT_TRUE(api_.eventually([&] { return api_.watches() >= 2; }));
  kill(getpid(), SIGTERM);
  EXPECT_EQ(finish(first), std::nullopt);
  EXPECT_THAT(words_.said(), Contains(HasSubstr("a new manager resumes the run")));
  EXPECT_TRUE(hasClusterRole(run)) << "the next manager needs it";
  EXPECT_GT(job(run)["spec"]["backoffLimit"], 0);

  auto second = manage(run);
  for (int index : {0, 1}) {
    // The new manager ends what the old one has left before it starts a generation of its own.
    ASSERT_TRUE(endsWhenDeleted(run.pod("worker-" + std::to_string(index), 1)));
  }
  ASSERT_TRUE(startsTasks(run, 2));
  askToStop(run, "now");
  EXPECT_EQ(finish(second), Outcome::kStopped);
}

TEST_F(ManagerTest, EndsWhenAnotherManagerHasTakenTheRun) {
  const KubeRun run = makeRun();
  auto managed = manage(run);
  ASSERT_TRUE(startsTasks(run));
  const auto other = KubeJournal::open(loop_, client_, run, ownerOf(run));
  ASSERT_TRUE(other) << other.error().message();
  EXPECT_EQ(finish(managed), std::nullopt);
  EXPECT_THAT(words_.said(), Contains(testing::AnyOf(HasSubstr("another manager has the run"),
                                                     HasSubstr("this manager has lost its run"))));
  EXPECT_TRUE(hasClusterRole(run));
}

TEST_F(ManagerTest, ARunThatIsDeletedTakesItsRightsAlong) {
  const KubeRun run = makeRun();
  auto managed = manage(run);
  ASSERT_TRUE(startsTasks(run));
  api_.remove(at(kube::kinds::kJobs, run.object()));
  EXPECT_EQ(finish(managed), std::nullopt);
  EXPECT_FALSE(hasClusterRole(run));
}

TEST_F(ManagerTest, ARefusalAtTheStartIsNotTakenForADeletion) {
  const KubeRun run = makeRun();
  api_.answer({.verb = "get", .plural = "configmaps", .name = run.object()}, 403, 100);
  auto managed = manage(run);
  EXPECT_EQ(finish(managed), std::nullopt);
  EXPECT_TRUE(hasClusterRole(run));
  EXPECT_GT(job(run)["spec"]["backoffLimit"], 0) << "another manager tries";
}

TEST_F(ManagerTest, WithoutTheRightToPlanNoGpusAreSplit) {
  const spec::Job job =
      jobOf("name: train\ngpus: 6\nprogram: {command: [run], image: mine:1, ship: false}\n");
  const auto run = createRun(client_, job, [] { return false; });
  if (!run) GTEST_FAIL() << run.error().message();
  // Somebody has taken it away since.
  api_.forbid({.verb = "list", .plural = "nodes"});
  auto managed = manage(*run);
  EXPECT_EQ(finish(managed), Outcome::kInfrastructureFailed);
  EXPECT_THAT(words_.said(), Contains(HasSubstr("gpus: how they are split is planned")));
  EXPECT_THAT(pods(), IsEmpty());
}

TEST_F(ManagerTest, AManagerThatFindsTheRunOverTidiesUpAndLetsTheJobFail) {
  const KubeRun run = makeRun();
  write(run, {entry(EntryKind::kCreated), entry(EntryKind::kStarting),
              finished(Outcome::kFailed, "rank 0 failed")});
  runTask(run, 0);
  auto managed = manage(run);
  EXPECT_EQ(finish(managed), Outcome::kFailed);
  EXPECT_EQ(job(run)["spec"]["backoffLimit"], 0);
  EXPECT_FALSE(hasClusterRole(run));
}

TEST_F(ManagerTest, ARunThatHasSucceededIsACompleteJob) {
  const KubeRun run = makeRun();
  write(run, {entry(EntryKind::kCreated), finished(Outcome::kSucceeded)});
  auto managed = manage(run);
  EXPECT_EQ(finish(managed), Outcome::kSucceeded);
  EXPECT_GT(job(run)["spec"]["backoffLimit"], 0) << "nobody touched it";
}

TEST_F(ManagerTest, TheTimeToLiveCountsFromTheEndOfTheRun) {
  const KubeRun run = makeRun("ttl: 1s\n");
  gang::Entry last = finished(Outcome::kSucceeded);
  last.time -= 1h;
  write(run, {entry(EntryKind::kCreated), last});
  // An API server that is away for a moment does not make it live for ever.
  api_.answer({.verb = "delete", .plural = "jobs"}, 503, 1);
  auto managed = manage(run);
  EXPECT_EQ(finish(managed), Outcome::kSucceeded);
  EXPECT_FALSE(api_.has(at(kube::kinds::kJobs, run.object())));
  EXPECT_FALSE(api_.has(mapAt(run.object()))) << "it goes with the Job";
}

TEST_F(ManagerTest, WhatNobodyHasBroughtHomeOutlivesItsTime) {
  api_.put({kube::kinds::kStorageClasses, "", "standard", ""}, {});
  const KubeRun run = makeRun("ttl: 1ms\noutput: out/model.h5\n");
  write(run, {entry(EntryKind::kCreated), finished(Outcome::kSucceeded)});
  auto managed = manage(run);
  const int before = api_.count({.verb = "get", .plural = "configmaps", .name = run.object()});
  ASSERT_TRUE(api_.eventually([&] {
    return api_.count({.verb = "get", .plural = "configmaps", .name = run.object()}) > before + 5;
  })) << "it looks whether the output has arrived";
  EXPECT_TRUE(api_.has(at(kube::kinds::kClaims, run.object())));
  EXPECT_TRUE(api_.has(at(kube::kinds::kJobs, run.object())));
  api_.change(mapAt(run.object()), [](json& record) {
    record["metadata"]["annotations"][annotations::kArrived] = "true";
  });
  EXPECT_EQ(finish(managed), Outcome::kSucceeded);
  EXPECT_FALSE(api_.has(at(kube::kinds::kClaims, run.object())));
}

TEST_F(ManagerTest, AJobThatCannotBeReadIsSaid) {
  const KubeRun run = makeRun();
  api_.change(mapAt(run.object()), [](json& record) { record["data"][kJobKey] = "workers: -1"; });
  auto managed = manage(run);
  EXPECT_EQ(finish(managed), std::nullopt);
  EXPECT_THAT(words_.said(), Contains(HasSubstr("the job of the run: ")));
}

}  // namespace
}  // namespace dure::kubernetes
