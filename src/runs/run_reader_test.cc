#include "runs/run_reader.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include <nlohmann/json.hpp>

#include "runs/run_writer.h"
#include "runs/test_jobs.h"
#include "spec/load.h"

namespace dure::runs {
namespace {

using testing::ElementsAre;

class RunReaders : public testing::Test {
 protected:
  ~RunReaders() override {
    if (other_ > 0) {
      kill(other_, SIGKILL);
      waitpid(other_, nullptr, 0);
    }
    static_cast<void>(removeTree(root_));
  }
  // A run whose process is gone, with these events.
  RunId create(const std::string& name, const std::vector<gang::Entry>& entries) {
    const auto run = store_.create(jobNamed(name));
    EXPECT_TRUE(run);
    append(run->id, entries);
    return run->id;
  }
  void append(const RunId& id, const std::vector<gang::Entry>& entries) {
    auto writer = RunWriter::open(store_.paths(id), clock_);
    for (const gang::Entry& entry : entries) EXPECT_TRUE((*writer)->append(entry));
  }
  // Lets another process be in charge of it, until the test ends.
  void takeElsewhere(const RunId& id) {
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    other_ = fork();
    if (other_ == 0) {
      const auto run = store_.take(id);
      if (!run || write(ends[1], "y", 1) != 1) _exit(1);
      while (true) pause();
    }
    close(ends[1]);
    const Fd in(ends[0]);
    char told = 0;
    ASSERT_EQ(read(in.get(), &told, 1), 1);
  }
  gang::Entry make(gang::EntryKind kind, int generation = 1) const {
    gang::Entry entry{.kind = kind};
    entry.time = clock_.now();
    entry.generation = generation;
    entry.workers = 2;
    return entry;
  }
  gang::Entry finished(gang::Outcome outcome, const std::string& reason = "") const {
    gang::Entry entry = make(gang::EntryKind::kFinished);
    entry.outcome = outcome;
    entry.reason = reason;
    return entry;
  }
  std::string statusOf(const RunId& id) const { return statusName(readRun(store_, id).status); }

 private:
  static std::string makeDirectory() {
    std::string name = testing::TempDir() + "dure-reader-XXXXXX";
    return mkdtemp(name.data());
  }

 protected:
  FakeClock clock_;
  const std::string root_ = makeDirectory();
  RunStore store_{root_};
  pid_t other_ = 0;
};

TEST_F(RunReaders, AFinishedRunHasItsOutcomeAndReason) {
  const std::pair<gang::Outcome, const char*> table[] = {{gang::Outcome::kSucceeded, "succeeded"},
                                                         {gang::Outcome::kFailed, "failed"},
                                                         {gang::Outcome::kStopped, "stopped"}};
  for (const auto& [outcome, word] : table) {
    const RunId id = create("train", {make(gang::EntryKind::kCreated), finished(outcome, "why")});
    const RunView run = readRun(store_, id);
    EXPECT_EQ(statusName(run.status), word);
    EXPECT_EQ(run.state.reason, "why");
    EXPECT_FALSE(run.coordinator);
  }
}

TEST_F(RunReaders, ARunThatNobodyIsInChargeOfAndThatHasNotEndedIsLost) {
  EXPECT_EQ(statusOf(create("a", {})), "lost");
  EXPECT_EQ(
      statusOf(create("b", {make(gang::EntryKind::kCreated), make(gang::EntryKind::kRunning)})),
      "lost");
}

TEST_F(RunReaders, ARunInSomebodysChargeTellsHowFarItIs) {
  const RunId id = create("train", {});
  takeElsewhere(id);
  EXPECT_EQ(statusOf(id), "starting");
  const std::pair<gang::EntryKind, const char*> table[] = {
      {gang::EntryKind::kCreated, "starting"},  {gang::EntryKind::kStarting, "starting"},
      {gang::EntryKind::kJoined, "starting"},   {gang::EntryKind::kRunning, "running"},
      {gang::EntryKind::kExited, "running"},    {gang::EntryKind::kSilent, "running"},
      {gang::EntryKind::kStopping, "stopping"}, {gang::EntryKind::kExited, "stopping"},
      {gang::EntryKind::kEnded, "waiting"},     {gang::EntryKind::kWaiting, "waiting"},
      {gang::EntryKind::kResized, "waiting"},   {gang::EntryKind::kStarting, "starting"},
      {gang::EntryKind::kRunning, "running"}};
  for (const auto& [kind, word] : table) {
    append(id, {make(kind)});
    EXPECT_EQ(statusOf(id), word) << gang::entryKindName(kind);
  }
  EXPECT_EQ(readRun(store_, id).coordinator, other_);
  append(id, {finished(gang::Outcome::kFailed)});
  EXPECT_EQ(statusOf(id), "failed") << "although its process is still there";
  append(id, {make(gang::EntryKind::kResumed)});
  EXPECT_EQ(statusOf(id), "starting");
}

TEST_F(RunReaders, ADamagedJobFileDoesNotHideTheRun) {
  const RunId id =
      create("train", {make(gang::EntryKind::kCreated), finished(gang::Outcome::kSucceeded)});
  EXPECT_EQ(readRun(store_, id).job, jobNamed("train"));
  for (const std::string& damage : {std::string(""), std::string("workers: ["),
                                    std::string("\xff\0", 2), std::string("a: 1")}) {
    std::ofstream(store_.paths(id).job()) << damage;
    const RunView run = readRun(store_, id);
    EXPECT_FALSE(run.job);
    EXPECT_EQ(run.status, RunStatus::kSucceeded);
    EXPECT_FALSE(toJson(run).contains("strategy"));
  }
  ASSERT_TRUE(removeTree(store_.paths(id).job()));
  EXPECT_EQ(statusOf(id), "succeeded");
}

TEST_F(RunReaders, ARunThatIsBeingRemovedDoesNotCrashTheReader) {
  const RunView run = readRun(store_, {.name = "gone", .number = 1});
  EXPECT_EQ(run.status, RunStatus::kLost);
  EXPECT_TRUE(run.entries.empty());
}

TEST_F(RunReaders, TheHighestStepIsTold) {
  const RunId id = create("train", {});
  EXPECT_FALSE(readRun(store_, id).step);
  {
    auto writer = RunWriter::open(store_.paths(id), clock_);
    for (const char* line :
         {"{\"loss\":1}", "{\"step\":\"x\"}", "{\"step\":7}", "{\"step\":5}", "noise", "[3]"}) {
      ASSERT_TRUE((*writer)->metric(1, 0, line));
    }
  }
  EXPECT_EQ(readRun(store_, id).step, 7);
  std::ofstream(store_.paths(id).metrics(), std::ios::app) << "{\"step\":9";
  EXPECT_EQ(readRun(store_, id).step, 7) << "a line that is not whole is passed over";
}

TEST(Reports, TextWhereANumberBelongsIsPassedOver) {
  const std::vector<std::string> reports = {
      R"({"rank":"0","step":1,"loss":2})", R"({"rank":1,"step":2,"loss":3})",
      R"({"rank":null,"step":"x","loss":4})", R"({"rank":0,"step":5,"loss":"low"})",
      R"({"step":6,"loss":0.5})"};
  EXPECT_EQ(lastStepOf(reports), 6);
  EXPECT_THAT(lossesOf(reports),
              ElementsAre(std::pair(std::int64_t{1}, 2.0), std::pair(std::int64_t{6}, 0.5)));
}

TEST_F(RunReaders, TheStepIsFoundAtTheEndOfALongRecord) {
  const RunId id = create("train", {});
  {
    std::ofstream file(store_.paths(id).metrics());
    for (int step = 0; step < 20'000; ++step) {
      file << "{\"step\":" << step << ",\"pad\":\"xxxxxxxxxxxxxxxxxxxxxxxxx\"}\n";
    }
  }
  EXPECT_EQ(readRun(store_, id).step, 19'999);
}

TEST_F(RunReaders, RunsAreListedOldestFirst) {
  create("b", {make(gang::EntryKind::kCreated)});
  clock_.advance(Duration(1000));
  create("a", {make(gang::EntryKind::kCreated)});
  clock_.advance(Duration(1000));
  create("b", {make(gang::EntryKind::kCreated)});
  std::vector<std::string> names;
  for (const RunView& run : readRuns(store_)) names.push_back(run.id.text());
  EXPECT_THAT(names, ElementsAre("b.1", "a.1", "b.2"));
}

TEST_F(RunReaders, ProgramsGetTheSameAsJson) {
  const RunId id =
      create("train", {make(gang::EntryKind::kCreated), make(gang::EntryKind::kStarting, 3),
                       finished(gang::Outcome::kFailed, "rank 0 exited with 1")});
  const nlohmann::json json = toJson(readRun(store_, id));
  EXPECT_EQ(json.at("id"), "train.1");
  EXPECT_EQ(json.at("name"), "train");
  EXPECT_EQ(json.at("run"), 1);
  EXPECT_EQ(json.at("status"), "failed");
  EXPECT_EQ(json.at("generation"), 3);
  EXPECT_EQ(json.at("workers"), 2);
  EXPECT_EQ(json.at("reason"), "rank 0 exited with 1");
  EXPECT_EQ(json.at("strategy"), "plain");
  EXPECT_EQ(json.at("created"), formatTime(clock_.now()));
  EXPECT_EQ(json.at("directory"), store_.paths(id).directory);
  EXPECT_FALSE(json.contains("pid"));
  EXPECT_FALSE(json.contains("step"));
}

}  // namespace
}  // namespace dure::runs
