#include "backend/kubernetes/kube_runs.h"

#include <future>

#include "backend/kubernetes/test_runs.h"

namespace dure::kubernetes {
namespace {

using namespace std::chrono_literals;
using gang::EntryKind;
using nlohmann::json;
using runs::RunStatus;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class Listener : public runs::Follower {
 public:
  void seen(const runs::RunView& run) override {
    const std::lock_guard lock(mutex_);
    statuses_.push_back(run.status);
  }
  void output(int, int rank, std::string_view lines) override {
    const std::lock_guard lock(mutex_);
    printed_ += std::to_string(rank) + ":" + std::string(lines);
  }
  void trouble(const std::string& sentence) override {
    const std::lock_guard lock(mutex_);
    troubles_.push_back(sentence);
  }
  void tick() override {}

  bool saw(RunStatus status) {
    const std::lock_guard lock(mutex_);
    return std::find(statuses_.begin(), statuses_.end(), status) != statuses_.end();
  }
  std::string printed() {
    const std::lock_guard lock(mutex_);
    return printed_;
  }
  std::vector<std::string> troubles() {
    const std::lock_guard lock(mutex_);
    return troubles_;
  }

 private:
  std::mutex mutex_;
  std::vector<RunStatus> statuses_;
  std::string printed_;
  std::vector<std::string> troubles_;
};

class KubeRunsTest : public RunsTest {
 protected:
  static runs::RunId idOf(const KubeRun& run) { return {.name = run.job, .number = run.number}; }
  static Wait soon() { return Wait(20s); }
  auto follow(const KubeRun& run) {
    return std::async(std::launch::async,
                      [this, run] { return runs_.follow(idOf(run), listener_, soon()); });
  }
  auto watchesAll() {
    return [this] { return api_.watches() >= 3; };
  }

  KubeRuns runs_{std::make_unique<kube::KubeClient>(api_.access(kRun.name_space), Duration{2'000})};
  Listener listener_;
};

TEST_F(KubeRunsTest, FindsRunsByNameAndSaysWhatThereIs) {
  EXPECT_EQ(runs_.find("train").error().message(), "there is no run train in namespace team");
  makeRun();
  makeRun();
  makeRun("", "other");
  EXPECT_EQ(runs_.find("train")->text(), "train.2");
  EXPECT_EQ(runs_.find("train.1")->text(), "train.1");
  const auto none = runs_.find("trian");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code(), Code::kNotFound);
  EXPECT_THAT(none.error().message(), HasSubstr("there are: train.1, train.2, other.1"));
}

TEST_F(KubeRunsTest, ListsAllRunsAndHowTheyAre) {
  const KubeRun over = makeRun(), running = makeRun(), lost = makeRun(), fresh = makeRun();
  write(over, {entry(EntryKind::kCreated), finished(gang::Outcome::kSucceeded)});
  write(running,
        {entry(EntryKind::kCreated), entry(EntryKind::kStarting), entry(EntryKind::kRunning)});
  write(lost, {entry(EntryKind::kCreated), entry(EntryKind::kRunning)});
  kubelet_.finishJob(lost.object(), "Failed");
  api_.setPage(1);
  const auto all = runs_.list();
  ASSERT_TRUE(all);
  std::vector<RunStatus> statuses;
  for (const runs::RunView& view : *all) statuses.push_back(view.status);
  EXPECT_THAT(statuses, ElementsAre(RunStatus::kSucceeded, RunStatus::kRunning, RunStatus::kLost,
                                    RunStatus::kStarting));
}

TEST_F(KubeRunsTest, ADamagedRecordIsStillListed) {
  const KubeRun run = makeRun();
  api_.change(mapAt(run.object()), [](json& record) { record["data"][kJobKey] = "{"; });
  const auto all = runs_.list();
  ASSERT_TRUE(all);
  ASSERT_EQ(all->size(), 1u);
  EXPECT_FALSE(all->front().job);
}

TEST_F(KubeRunsTest, TellsWhatKeepsARunFromStarting) {
  const KubeRun run = makeRun();
  write(run, {entry(EntryKind::kCreated), entry(EntryKind::kStarting)});
  kubelet_.wait(runTask(run, 0), "ErrImagePull", "no such image");
  const auto view = runs_.read(idOf(run));
  ASSERT_TRUE(view);
  EXPECT_THAT(view->state.reason, HasSubstr("worker-0: cannot pull image"));
  EXPECT_EQ(runs_.read({.name = "train", .number = 7}).error().code(), Code::kNotFound);
}

// ---- following

TEST_F(KubeRunsTest, FollowsARunToItsEndWhateverBreaks) {
  const KubeRun run = makeRun();
  write(run, {entry(EntryKind::kCreated)});
  auto over = follow(run);
  ASSERT_TRUE(api_.eventually(watchesAll()));
  api_.cutStreams();
  write(run, {entry(EntryKind::kStarting), entry(EntryKind::kRunning)});
  ASSERT_TRUE(api_.eventually([&] { return listener_.saw(RunStatus::kRunning); }));
  const std::string pod = runTask(run, 0);
  api_.appendLog(run.name_space, pod, "one\n");
  ASSERT_TRUE(api_.eventually([&] { return listener_.printed() == "0:one\n"; }));
  api_.forgetVersions();
  api_.cutStreams();
  api_.appendLog(run.name_space, pod, "two\n");
  ASSERT_TRUE(api_.eventually([&] { return listener_.printed() == "0:one\n0:two\n"; }));
  kubelet_.end(pod);
  write(run, {finished(gang::Outcome::kSucceeded)});
  const auto view = over.get();
  ASSERT_TRUE(view) << view.error().message();
  EXPECT_EQ(view->status, RunStatus::kSucceeded);
  EXPECT_EQ(listener_.printed(), "0:one\n0:two\n") << "nothing is told twice";
}

TEST_F(KubeRunsTest, FollowingEndsWhenTheRunIsRemoved) {
  const KubeRun run = makeRun();
  write(run, {entry(EntryKind::kCreated), entry(EntryKind::kRunning)});
  auto over = follow(run);
  ASSERT_TRUE(api_.eventually([&] { return listener_.saw(RunStatus::kRunning); }));
  api_.remove(at(kube::kinds::kJobs, run.object()));
  api_.remove(mapAt(run.object()));
  const auto view = over.get();
  ASSERT_FALSE(view);
  EXPECT_EQ(view.error().code(), Code::kNotFound);
  EXPECT_EQ(view.error().message(), "train.1 was removed");
}

TEST_F(KubeRunsTest, WhoMayNotWatchIsToldThatTheRunGoesOn) {
  const KubeRun run = makeRun();
  api_.forbid({.verb = "list", .plural = "jobs"});
  const auto view = runs_.follow(idOf(run), listener_, soon());
  ASSERT_FALSE(view);
  EXPECT_EQ(view.error().code(), Code::kDenied);
  EXPECT_THAT(view.error().message(), HasSubstr("train.1 goes on"));
}

TEST_F(KubeRunsTest, WhoMayNotReadLogsIsToldOnceAndSeesTheEnd) {
  const KubeRun run = makeRun();
  write(run, {entry(EntryKind::kCreated), entry(EntryKind::kRunning)});
  api_.forbid({.part = "log"});
  auto over = follow(run);
  ASSERT_TRUE(api_.eventually([&] { return listener_.saw(RunStatus::kRunning); }));
  const std::string pod = runTask(run, 0);
  ASSERT_TRUE(api_.eventually([&] { return api_.count({.part = "log"}) > 0; }));
  for (int change = 0; listener_.troubles().empty() && change < 1'000; ++change) {
    api_.change(podAt(pod),
                [&](json& each) { each["metadata"]["labels"]["n"] = std::to_string(change); });
    api_.eventually([&] { return !listener_.troubles().empty(); }, Duration{20});
  }
  kubelet_.end(pod);
  write(run, {finished(gang::Outcome::kFailed, "rank 0 failed")});
  const auto view = over.get();
  ASSERT_TRUE(view);
  EXPECT_EQ(view->status, RunStatus::kFailed);
  EXPECT_EQ(listener_.troubles().size(), 1u);
}

TEST_F(KubeRunsTest, FollowingEndsInTime) {
  const KubeRun run = makeRun();
  const auto view = runs_.follow(idOf(run), listener_, Wait(50ms));
  ASSERT_FALSE(view);
  EXPECT_THAT(view.error().message(), HasSubstr("timed out"));
}

// ---- logs

TEST_F(KubeRunsTest, LogsAreOfTheNewestGenerationAndTheRankThatIsAskedFor) {
  const KubeRun run = makeRun();
  write(run, {entry(EntryKind::kCreated), entry(EntryKind::kStarting, 2)});
  for (int generation : {1, 2}) {
    for (int rank : {0, 1}) {
      api_.appendLog(run.name_space, runTask(run, rank, generation),
                     "g" + std::to_string(generation) + "\n");
    }
  }
  struct Case {
    runs::LogQuery query;
    const char* printed;
  };
  for (const Case& c : {Case{{}, "0:g2\n1:g2\n"}, Case{{.rank = 1}, "1:g2\n"},
                        Case{{.generation = 1}, "0:g1\n1:g1\n"}}) {
    std::string printed;
    ASSERT_TRUE(runs_.logs(
        idOf(run), c.query,
        [&](int, int rank, std::string_view lines) {
          printed += std::to_string(rank) + ":" + std::string(lines);
        },
        soon()));
    EXPECT_EQ(printed, c.printed);
  }
  api_.forbid({.part = "log"});
  EXPECT_EQ(runs_
                .logs(
                    idOf(run), {}, [](int, int, std::string_view) {}, soon())
                .error()
                .code(),
            Code::kDenied);
}

TEST_F(KubeRunsTest, LogsAreFollowedUntilTheRunEnds) {
  const KubeRun run = makeRun();
  write(run, {entry(EntryKind::kCreated), entry(EntryKind::kRunning)});
  const std::string pod = runTask(run, 0);
  api_.appendLog(run.name_space, pod, "one\n");
  auto over = std::async(std::launch::async, [&] {
    return runs_.logs(
        idOf(run), {.follow = true},
        [&](int generation, int rank, std::string_view lines) {
          listener_.output(generation, rank, lines);
        },
        soon());
  });
  ASSERT_TRUE(api_.eventually([&] { return listener_.printed() == "0:one\n"; }));
  api_.appendLog(run.name_space, pod, "last words\n");
  kubelet_.end(pod);
  write(run, {finished(gang::Outcome::kSucceeded)});
  EXPECT_TRUE(over.get());
  EXPECT_EQ(listener_.printed(), "0:one\n0:last words\n");
}

// ---- stopping and removing

TEST_F(KubeRunsTest, StoppingAsksTheManagerAndWaitsForIt) {
  for (const bool at_once : {false, true}) {
    const KubeRun run = makeRun();
    write(run, {entry(EntryKind::kCreated), entry(EntryKind::kRunning)});
    auto stopped =
        std::async(std::launch::async, [&] { return runs_.stop(idOf(run), at_once, soon()); });
    const auto asked = [&] {
      return api_.get(mapAt(run.object()))["metadata"]["annotations"].value(annotations::kStop, "");
    };
    ASSERT_TRUE(api_.eventually([&] { return !asked().empty(); }));
    EXPECT_EQ(asked(), at_once ? "now" : "gently");
    write(run, {finished(gang::Outcome::kStopped)});
    const auto result = stopped.get();
    ASSERT_TRUE(result) << result.error().message();
    EXPECT_TRUE(result->was_running);
    EXPECT_EQ(result->run.status, RunStatus::kStopped);
    EXPECT_FALSE(runs_.stop(idOf(run), at_once, soon())->was_running) << "it is over";
  }
}

TEST_F(KubeRunsTest, AManagerThatNeverStartedCannotStopARun) {
  const KubeRun run = makeRun();
  api_.put(podAt("train-1-abcde"),
           {{"apiVersion", "v1"},
            {"kind", "Pod"},
            {"metadata", {{"labels", labelsOf(run, "manager")}}},
            {"spec", {{"containers", {{{"name", "manager"}, {"image", "dure:9"}}}}}}});
  kubelet_.wait("train-1-abcde", "ImagePullBackOff");
  const auto stopped = runs_.stop(idOf(run), false, soon());
  ASSERT_FALSE(stopped);
  EXPECT_THAT(stopped.error().message(), HasSubstr("has not started: cannot pull image dure:9"));
}

TEST_F(KubeRunsTest, AQuotaThatKeepsTheManagerOutIsNamed) {
  const KubeRun run = makeRun();
  api_.put(at(kube::kinds::kEvents, "e"), {{"involvedObject", {{"name", run.object()}}},
                                           {"reason", "FailedCreate"},
                                           {"message", "exceeded quota"}});
  EXPECT_THAT(runs_.stop(idOf(run), false, soon()).error().message(), HasSubstr("exceeded quota"));
  // Whoever may not read events asks what would become of the pod.
  api_.forbid({.verb = "list", .plural = "events"});
  api_.answer({.verb = "create", .plural = "pods"}, 403);
  EXPECT_THAT(runs_.stop(idOf(run), false, soon()).error().message(),
              HasSubstr("has not started: the test says 403"));
}

TEST_F(KubeRunsTest, StoppingEndsInTime) {
  const KubeRun run = makeRun();
  write(run, {entry(EntryKind::kCreated), entry(EntryKind::kRunning)});
  const auto stopped = runs_.stop(idOf(run), false, Wait(50ms));
  ASSERT_FALSE(stopped);
  EXPECT_THAT(stopped.error().message(), HasSubstr("timed out while stopping train.1"));
}

TEST_F(KubeRunsTest, ARunThatGoesOnIsNotRemovedUnlessByForce) {
  const KubeRun run = makeRun();
  write(run, {entry(EntryKind::kCreated), entry(EntryKind::kRunning)});
  const auto before = everything();
  EXPECT_EQ(runs_.remove(idOf(run), false, soon()).error().code(), Code::kInvalid);
  EXPECT_EQ(everything(), before);
  auto removed =
      std::async(std::launch::async, [&] { return runs_.remove(idOf(run), true, soon()); });
  ASSERT_TRUE(api_.eventually([&] {
    return api_.get(mapAt(run.object())).contains("/metadata/annotations/dure~1stop"_json_pointer);
  }));
  write(run, {finished(gang::Outcome::kStopped)});
  const auto done = removed.get();
  EXPECT_TRUE(done) << done.error().message();
  EXPECT_THAT(everything(), IsEmpty());
}

TEST_F(KubeRunsTest, OneThatHasNotBegunIsRemovedAtOnceByForce) {
  const KubeRun run = makeRun();
  EXPECT_TRUE(runs_.remove(idOf(run), true, soon()));
  EXPECT_THAT(everything(), IsEmpty());
}

TEST_F(KubeRunsTest, RemovingWaitsForPodsAndNamesThoseThatStay) {
  const KubeRun run = makeRun(), other = makeRun();
  write(run, {entry(EntryKind::kCreated), finished(gang::Outcome::kFailed)});
  const std::string pod = runTask(run, 0);
  const auto stays = runs_.remove(idOf(run), false, Wait(50ms));
  ASSERT_FALSE(stays);
  EXPECT_THAT(stays.error().message(), HasSubstr("pods/" + pod + " stays; is their node away?"));
  kubelet_.end(pod);
  EXPECT_EQ(runs_.remove(idOf(run), false, soon()).error().code(), Code::kNotFound)
      << "it is gone by now";
  EXPECT_TRUE(api_.has(mapAt(other.object()))) << "of others nothing is removed";
}

TEST_F(KubeRunsTest, WhoMayNotRemoveClusterRolesCanRemoveTheRun) {
  const KubeRun run = makeRun();
  write(run, {entry(EntryKind::kCreated), finished(gang::Outcome::kSucceeded)});
  api_.forbid({.verb = "delete", .plural = "clusterroles"});
  EXPECT_TRUE(runs_.remove(idOf(run), false, soon()));
  EXPECT_FALSE(api_.has(mapAt(run.object())));
}

}  // namespace
}  // namespace dure::kubernetes
