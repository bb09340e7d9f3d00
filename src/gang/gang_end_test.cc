#include "gang/gang.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gang/test_gang_script.h"

namespace dure::gang {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(GangEnd, NoGenerationStartsBesideWhatCannotBeKilled) {
  Script script(plainJob(1));
  script.joinAll();
  script.exits("worker-0", 1);
  script.take();
  script.see(ProcessesLeft{"process 4711 (sudo)"});
  script.goneAll();
  const auto words = script.take();
  EXPECT_EQ(words.front(), "warned: process 4711 (sudo) cannot be killed and is left behind");
  EXPECT_EQ(words.back(), "finish infrastructure failed");
  EXPECT_THAT(words[words.size() - 2], testing::HasSubstr("process 4711 (sudo)"));
}

TEST(GangEnd, WhatCannotBeKilledDoesNotChangeHowTheJobEnded) {
  Script script(plainJob(1));
  script.joinAll();
  script.exits("worker-0", 0);
  script.see(ProcessesLeft{"process 4711 (sudo)"});
  script.goneAll();
  EXPECT_EQ(script.take().back(), "finish succeeded");
}

TEST(GangEnd, WithParameterServersTheChiefsEndIsTheJobs) {
  spec::Job job = plainJob(2);
  job.strategy = spec::Strategy::kTensorflow;
  job.roles = {.chief = 1, .ps = 1};
  Script script(job);
  script.joinAll();
  script.take();
  script.exits("worker-0", 0);
  EXPECT_THAT(script.take(), IsEmpty());
  script.exits("chief-0", 0);
  EXPECT_THAT(script.take(), ElementsAre("stopping", "stop chief-0 10000ms", "stop ps-0 10000ms",
                                         "stop worker-0 10000ms", "stop worker-1 10000ms"));
  script.goneAll();
  EXPECT_EQ(script.take().back(), "finish succeeded");
}

TEST(GangEnd, WithoutAChiefTheFirstWorkerIsIt) {
  spec::Job job = plainJob(2);
  job.strategy = spec::Strategy::kTensorflow;
  job.roles = {.ps = 1};
  Script script(job);
  script.joinAll();
  script.take();
  script.exits("worker-0", 0);
  EXPECT_THAT(script.take(), Not(IsEmpty()));
}

TEST(GangEnd, WhoseEndIsTheJobsCanBeChosen) {
  struct Row {
    spec::Strategy strategy;
    spec::Success success;
    int ps;
    bool ends;  // when the first worker has ended
  };
  const Row table[] = {{spec::Strategy::kTensorflow, spec::Success::kAuto, 0, false},
                       {spec::Strategy::kTensorflow, spec::Success::kAuto, 1, true},
                       {spec::Strategy::kTensorflow, spec::Success::kAll, 1, false},
                       {spec::Strategy::kTensorflow, spec::Success::kChief, 0, true},
                       {spec::Strategy::kPlain, spec::Success::kAuto, 0, false},
                       {spec::Strategy::kPlain, spec::Success::kAuto, 1, false},
                       {spec::Strategy::kTorch, spec::Success::kAll, 0, false},
                       {spec::Strategy::kTorch, spec::Success::kChief, 0, true}};
  for (const Row& row : table) {
    spec::Job job = plainJob(2);
    job.strategy = row.strategy;
    job.success = row.success;
    job.roles.ps = row.ps;
    Script script(job);
    script.joinAll();
    script.take();
    script.exits("worker-0", 0);
    EXPECT_EQ(!script.take().empty(), row.ends) << spec::strategyName(row.strategy) << " "
                                                << static_cast<int>(row.success) << " " << row.ps;
  }
}

TEST(GangEnd, AFailureBesideTheChiefCountsWhileItRuns) {
  spec::Job job = plainJob(2);
  job.success = spec::Success::kChief;
  Script script(job);
  script.joinAll();
  script.take();
  script.exits("worker-1", 1);
  EXPECT_THAT(script.take().front(), HasSubstr("(counted)"));
}

TEST(GangEnd, WhoFailsBecauseTheChiefHasEndedDoesNotFailTheJob) {
  spec::Job job = plainJob(2);
  job.success = spec::Success::kChief;
  Script script(job);
  script.joinAll();
  script.exits("worker-1", 1, "ConnectionResetError: the chief is gone");
  script.exits("worker-0", 0);
  script.goneAll();
  EXPECT_EQ(script.take().back(), "finish succeeded");
  EXPECT_EQ(script.gang.failures(), 0);
}

const std::string kNoModule =
    "Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\n"
    "    import nosuch\nModuleNotFoundError: No module named 'nosuch'\n";

TEST(GangEnd, AMistakeThatCannotHealIsNotTriedAgain) {
  Script script(plainJob(1));
  script.joinAll();
  script.ran_ms = 800;
  script.exits("worker-0", 1, kNoModule);
  script.goneAll();
  const auto words = script.take();
  EXPECT_EQ(words.back(), "finish failed");
  EXPECT_THAT(
      words[words.size() - 2],
      HasSubstr(
          "ModuleNotFoundError: No module named 'nosuch'; not restarted: it would fail again"));
}

TEST(GangEnd, WhatHasRunBeforeIsTriedAgainWhateverItSays) {
  Script later(plainJob(1));
  later.joinAll();
  later.exits("worker-0", 1);
  later.goneAll();
  later.pass(Duration(60'000));
  later.joinAll();
  later.ran_ms = 800;
  later.exits("worker-0", 1, kNoModule);
  later.goneAll();
  EXPECT_NE(later.take().back(), "finish failed");
  // Nor is one given up that had worked for a while.
  Script late(plainJob(1));
  late.joinAll();
  late.ran_ms = 3'600'000;
  late.exits("worker-0", 1, kNoModule);
  late.goneAll();
  EXPECT_NE(late.take().back(), "finish failed");
}

// What becomes of a run of three restarts whose only rank fails twice like this, soon.
std::string failingTwice(const std::string& first, const std::string& second,
                         bool reported = false) {
  Script script(plainJob(1));
  for (const std::string& words : {first, second}) {
    script.joinAll();
    script.see(ProcessExited{
        "worker-0",
        protocol::Exited{.status = {1, 0}, .ran_ms = 900, .errors = words, .reported = reported}});
    script.goneAll();
    if (script.gang.phase() == Gang::Phase::kWaiting) script.pass(Duration(60'000));
  }
  return script.take().back();
}

TEST(GangEnd, TheSameFailureTwiceWithoutProgressIsEnough) {
  const std::string type = "TypeError: unsupported operand\n";
  EXPECT_EQ(failingTwice(type, type), "finish failed");
  EXPECT_NE(failingTwice(type, "TypeError: another\n"), "finish failed");
  EXPECT_NE(failingTwice(type, type, true), "finish failed") << "it had made progress";
  EXPECT_NE(failingTwice("", ""), "finish failed") << "nobody knows whether it is the same";
  const std::string lost = "ConnectionResetError: [Errno 104] Connection reset by peer\n";
  EXPECT_NE(failingTwice(lost, lost), "finish failed") << "others may be the cause";
  const std::string busy = "OSError: [Errno 98] Address already in use\n";
  EXPECT_NE(failingTwice(busy, busy), "finish failed") << "the port may be free again";
}

}  // namespace
}  // namespace dure::gang
