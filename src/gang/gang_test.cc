#include "gang/gang.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gang/test_gang_script.h"

namespace dure::gang {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(Gang, RanksAreReleasedWhenEveryAgentHasJoined) {
  Script script(plainJob(2));
  EXPECT_THAT(script.take(), ElementsAre("starting", "start worker-0", "start worker-1"));
  script.see(TaskJoined{"worker-1", "host", 7});
  EXPECT_THAT(script.take(), IsEmpty());
  script.see(TaskJoined{"worker-0", "host", 7});
  EXPECT_THAT(script.take(), ElementsAre("running", "release"));
}

TEST(Gang, TheJobIsDoneWhenAllHaveEndedWellAndAreGone) {
  Script script(plainJob(2));
  script.joinAll();
  script.take();
  script.exits("worker-0", 0);
  EXPECT_THAT(script.take(), IsEmpty());
  script.exits("worker-1", 0);
  EXPECT_THAT(script.take(),
              ElementsAre("stopping", "stop worker-0 10000ms", "stop worker-1 10000ms"));
  script.see(TaskFinished{"worker-0"});
  script.see(TaskGone{"worker-0"});
  EXPECT_THAT(script.take(), IsEmpty());
  script.see(TaskGone{"worker-1"});
  EXPECT_THAT(script.take(), ElementsAre("ended", "finished", "finish succeeded"));
}

TEST(Gang, AFailureStopsTheWholeGangAndTheNextGenerationWaitsUntilItIsGone) {
  Script script(plainJob(2));
  script.joinAll();
  script.take();
  script.exits("worker-1", 1, "Traceback\nRuntimeError: no data\n");
  const std::string why =
      "rank 1 (worker-1) exited with 1 in generation 1, after 41 s: RuntimeError: no data";
  EXPECT_THAT(script.take(), ElementsAre("stopping: " + why + " (counted)", "stop worker-0 10000ms",
                                         "stop worker-1 10000ms"));
  script.see(TaskGone{"worker-1"});
  script.pass(Duration(2000));
  EXPECT_THAT(script.take(), IsEmpty());
  script.see(TaskGone{"worker-0"});
  EXPECT_THAT(script.take(), ElementsAre("ended: " + why + " (counted)", "waiting"));
  script.pass(Duration(199));
  EXPECT_THAT(script.take(), IsEmpty());
  script.pass(Duration(1));
  EXPECT_THAT(script.take(), ElementsAre("starting", "start worker-0", "start worker-1"));
  EXPECT_EQ(script.gang.generation(), 2);
}

TEST(Gang, TheLimitCountsFailuresOfTheProgram) {
  spec::Job job = plainJob(1);
  job.restarts.limit = 2;
  Script script(job);
  for (int failure = 1; failure <= 3; ++failure) {
    script.joinAll();
    script.exits("worker-0", 1, "bad " + std::to_string(failure));
    script.goneAll();
    script.pass(job.restarts.max_backoff);
  }
  EXPECT_EQ(script.gang.phase(), Gang::Phase::kFinished);
  EXPECT_EQ(script.words.back(), "finish failed");
  EXPECT_THAT(script.words[script.words.size() - 2],
              HasSubstr("in generation 3, after 41 s: bad 3 (failure 3, the limit is 2 restarts)"));
}

TEST(Gang, TheWaitDoublesForACrashLoopAndIsBounded) {
  spec::Job job = plainJob(1);
  job.restarts = {.limit = 100, .backoff = Duration(100), .max_backoff = Duration(1000)};
  Script script(job);
  std::vector<std::int64_t> waits;
  for (int i = 0; i < 6; ++i) {
    script.joinAll();
    script.exits("worker-0", 1);
    script.goneAll();
    std::int64_t waited = 0;
    while (script.gang.phase() == Gang::Phase::kWaiting) {
      script.pass(Duration(100));
      waited += 100;
    }
    waits.push_back(waited);
  }
  EXPECT_THAT(waits, ElementsAre(100, 200, 400, 800, 1000, 1000));
  // One that ran for a while was no crash loop.
  script.joinAll();
  script.clock.advance(Duration(5000));
  script.exits("worker-0", 1);
  script.goneAll();
  script.pass(Duration(100));
  EXPECT_EQ(script.gang.phase(), Gang::Phase::kStarting);
}

TEST(Gang, ALostAgentIsNotTheProgramsFault) {
  spec::Job job = plainJob(2);
  job.restarts.limit = 0;
  Script script(job);
  for (int i = 0; i < 5; ++i) {
    script.joinAll();
    script.clock.advance(Duration(10'000));
    script.see(TaskLost{"worker-1", "the connection was closed"});
    script.goneAll();
    script.pass(Duration(0));
    ASSERT_EQ(script.gang.phase(), Gang::Phase::kStarting) << "after loss " << i;
  }
  EXPECT_EQ(script.gang.failures(), 0);
  EXPECT_EQ(script.gang.generation(), 6);
}

TEST(Gang, ARankThatFailsBecauseAnAgentVanishedIsNotBlamed) {
  spec::Job job = plainJob(2);
  job.restarts.limit = 0;
  Script script(job);
  script.joinAll();
  script.exits("worker-0", 1, "Connection reset by peer");
  script.see(TaskLost{"worker-1", "the connection was closed"});
  script.goneAll();
  EXPECT_EQ(script.gang.failures(), 0);
  EXPECT_EQ(script.gang.phase(), Gang::Phase::kStarting);
}

// A node tells why it killed a whole task; the broken connection is seen sooner, or later.
TEST(Gang, ATaskThatFillsItsMemoryIsTheProgramsFault) {
  const TaskLost closed{"worker-1", "the connection was closed"};
  const TaskLost filled{"worker-1", "its pod ran out of memory", true};
  for (const auto& news : {std::vector{filled}, {closed, filled}, {filled, closed}}) {
    spec::Job job = plainJob(2);
    job.restarts.limit = 1;
    Script script(job);
    for (int generation = 1; generation <= 2; ++generation) {
      script.joinAll();
      script.exits("worker-0", 1, "Connection reset by peer");
      for (const TaskLost& seen : news) script.see(seen);
      script.goneAll();
      EXPECT_EQ(script.gang.failures(), generation);
      script.pass(Duration(60'000));
    }
    EXPECT_EQ(script.gang.phase(), Gang::Phase::kFinished);
    EXPECT_THAT(script.words[script.words.size() - 2],
                HasSubstr("rank 1 (worker-1) was lost in generation 2: its pod ran out of memory "
                          "(failure 2, the limit is 1 restarts)"));
  }
}

TEST(Gang, TheRankThatFailedFirstIsNamedEvenIfItIsHeardOfLast) {
  spec::Job job = plainJob(2);
  job.restarts.limit = 0;
  Script script(job);
  script.joinAll();
  script.exits("worker-0", 1, "Connection reset by peer", 2000);
  script.exits("worker-1", 1, "no data", 1000);
  script.goneAll();
  EXPECT_THAT(script.words[script.words.size() - 2],
              HasSubstr("rank 1 (worker-1) exited with 1 in generation 1, after 41 s: no data"));
}

TEST(Gang, ARankThatOnlyMissesAnotherIsNotNamed) {
  for (const char* words : {"Connection closed by peer", "RuntimeError: rank 1 is gone",
                            "dure-trainer: timed out after 5 m 0 s waiting for rank 1"}) {
    spec::Job job = plainJob(2);
    job.restarts.limit = 0;
    Script script(job);
    script.joinAll();
    script.exits("worker-0", 1, words, 1000);
    script.exits("worker-1", 1, "no data", 1001);
    script.goneAll();
    EXPECT_THAT(script.words[script.words.size() - 2], HasSubstr("rank 1 (worker-1) exited"));
  }
}

TEST(Gang, ARankThatWasKilledIsTheCauseOfTheOthersFailures) {
  spec::Job job = plainJob(2);
  job.restarts.limit = 0;
  Script script(job);
  script.joinAll();
  script.exits("worker-0", 1, "Connection reset by peer", 1000);
  script.exits("worker-1", 0, "", 1001, 9);
  script.goneAll();
  EXPECT_THAT(script.words[script.words.size() - 2],
              HasSubstr("rank 1 (worker-1) was killed by SIGKILL"));
}

TEST(Gang, AProgramThatCannotBeStartedIsNotTriedAgain) {
  Script script(plainJob(1));
  script.joinAll();
  script.see(
      ProcessExited{"worker-0", protocol::Exited{.status = {127, 0}, .error = "x: not found"}});
  script.goneAll();
  EXPECT_EQ(script.words.back(), "finish failed");
  EXPECT_THAT(script.words[script.words.size() - 2], HasSubstr("could not be started"));
}

TEST(Gang, AskedToStopItStopsGentlyThenAtOnce) {
  Script script(plainJob(2));
  script.joinAll();
  script.take();
  script.see(StopAsked{"interrupted", false});
  EXPECT_THAT(script.take(), ElementsAre("stopping: interrupted", "stop worker-0 10000ms",
                                         "stop worker-1 10000ms"));
  script.see(TaskGone{"worker-0"});
  script.see(StopAsked{"interrupted", true});
  EXPECT_THAT(script.take(), ElementsAre("kill worker-1"));
  script.see(TaskGone{"worker-1"});
  EXPECT_EQ(script.words.back(), "finish stopped");
}

TEST(Gang, AskedToStopWhileWaitingItStartsNothingMore) {
  Script script(plainJob(1));
  script.joinAll();
  script.exits("worker-0", 1);
  script.goneAll();
  script.see(StopAsked{"interrupted", false});
  EXPECT_EQ(script.words.back(), "finish stopped");
  script.pass(Duration(60'000));
  EXPECT_EQ(script.words.back(), "finish stopped");
}

TEST(Gang, WhatDoesNotStopIsKilled) {
  Script script(plainJob(1));
  script.joinAll();
  script.see(StopAsked{"interrupted", false});
  script.take();
  script.pass(Duration(4'000));
  script.pass(Duration(4'000));
  script.pass(Duration(4'000));
  EXPECT_THAT(script.take(), IsEmpty());
  script.pass(Duration(2'000));
  EXPECT_THAT(script.take(), ElementsAre("kill worker-0"));
}

TEST(Gang, TheDeadlineEndsARunForGood) {
  spec::Job job = plainJob(1);
  job.deadline = Duration(60'000);
  Script script(job);
  script.joinAll();
  for (int second = 0; second <= 60; ++second) script.pass(Duration(1000));
  script.goneAll();
  EXPECT_EQ(script.words.back(), "finish failed");
  EXPECT_THAT(script.words[script.words.size() - 2],
              HasSubstr("the deadline of 1 m 0 s has passed"));
}

TEST(Gang, ATaskThatNeverJoinsFailsThePlace) {
  spec::Job job = plainJob(2);
  job.timeouts.start = Duration(3'000);
  Script script(job);
  script.see(TaskJoined{"worker-0", "host", 7});
  script.pass(Duration(3'001));
  script.goneAll();
  EXPECT_EQ(script.words.back(), "finish infrastructure failed");
  EXPECT_THAT(script.words[script.words.size() - 2], HasSubstr("worker-1 did not join within 3 s"));
}

TEST(Gang, ASilentAgentIsNamedThenReplaced) {
  Script script(plainJob(2));
  script.joinAll();
  script.take();
  for (int second = 0; second < 16; ++second) {
    script.see(TaskBeat{"worker-0", {0}});
    script.pass(Duration(1000));
  }
  EXPECT_THAT(script.take(), ElementsAre(HasSubstr("silent: its agent has not been heard of for")));
  for (int second = 16; second < 31; ++second) {
    script.see(TaskBeat{"worker-0", {0}});
    script.pass(Duration(1000));
  }
  EXPECT_THAT(script.take()[0], HasSubstr("rank 1 (worker-1) was lost in generation 1: its agent "
                                          "has been silent for 31 s"));
}

TEST(Gang, ACoordinatorThatWasItselfAwayBlamesNobody) {
  Script script(plainJob(1));
  script.joinAll();
  script.take();
  script.pass(Duration(3'600'000));
  script.pass(Duration(1'000));
  EXPECT_THAT(script.take(), IsEmpty());
}

TEST(Gang, AHungRankIsNamedAndCounted) {
  spec::Job job = plainJob(2);
  job.timeouts.progress = Duration(60'000);
  Script script(job);
  script.joinAll();
  script.take();
  script.see(TaskBeat{"worker-1", {60'000}});
  EXPECT_THAT(script.take(), IsEmpty());
  script.see(TaskBeat{"worker-1", {60'001}});
  EXPECT_EQ(script.take()[0],
            "stopping: rank 1 (worker-1) made no progress for 1 m 0 s in generation 1 (counted)");
}

TEST(Gang, AnElasticGangGoesOnWithFewerButNeverBelowTheMinimum) {
  spec::Job job = plainJob(3);
  job.workers = {2, 3};
  Script script(job);
  const auto loseThrice = [&] {
    for (int i = 0; i < 3; ++i) {
      script.joinAll();
      script.see(TaskLost{"worker-1", "gone"});
      script.goneAll();
      script.pass(job.restarts.max_backoff);
    }
  };
  loseThrice();
  EXPECT_EQ(script.gang.roster().workers, 2);
  EXPECT_THAT(script.words, testing::Contains("resized: worker-1 does not come back"));
  loseThrice();
  EXPECT_EQ(script.gang.roster().workers, 2);
  EXPECT_EQ(script.gang.phase(), Gang::Phase::kStarting);
}

TEST(Gang, AnElasticGangThatIsIncompleteAfterTheTimeoutGoesOnWithThoseThatCame) {
  spec::Job job = plainJob(3);
  job.workers = {1, 3};
  job.timeouts.start = Duration(1'000);
  Script script(job);
  script.see(TaskJoined{"worker-0", "host", 7});
  script.pass(Duration(1'001));
  script.goneAll();
  EXPECT_EQ(script.gang.phase(), Gang::Phase::kStarting);
  EXPECT_EQ(script.gang.roster().workers, 1);
}

TEST(Gang, ATaskThatTheBackendRefusesIsTriedAFewTimes) {
  Script script(plainJob(1));
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(script.gang.phase(), Gang::Phase::kStarting);
    script.see(TaskRefused{"worker-0", "no such agent"});
    script.pass(Duration(5'000));
  }
  EXPECT_EQ(script.words.back(), "finish infrastructure failed");
}

TEST(Gang, ParameterServersAndEvaluatorsAreStoppedWhenTheWorkIsDone) {
  spec::Job job = plainJob(1);
  job.strategy = spec::Strategy::kTensorflow;
  job.roles = {.chief = 1, .ps = 1, .evaluator = 1};
  Script script(job);
  script.joinAll();
  script.take();
  script.exits("worker-0", 0);
  EXPECT_THAT(script.take(), IsEmpty());
  script.exits("chief-0", 0);
  EXPECT_THAT(script.take(), testing::Contains("stop ps-0 10000ms"));
  script.goneAll();
  EXPECT_EQ(script.words.back(), "finish succeeded");
}

TEST(Gang, AnAgentOfAnotherGenerationIsNotExpected) {
  Script script(plainJob(2));
  EXPECT_TRUE(script.gang.expects("worker-0", 1));
  EXPECT_FALSE(script.gang.expects("worker-0", 0));
  EXPECT_FALSE(script.gang.expects("worker-0", 2));
  EXPECT_FALSE(script.gang.expects("worker-9", 1));
  script.see(TaskJoined{"worker-0", "host", 7});
  EXPECT_FALSE(script.gang.expects("worker-0", 1)) << "nor is a second one of this";
}

TEST(Gang, AResumedRunKeepsItsCountsAndTakesTheNextGeneration) {
  spec::Job job = plainJob(2);
  job.workers = {1, 2};
  job.restarts.limit = 2;
  RunState before;
  before.generation = 4;
  before.failures = 2;
  before.resized = 1;
  before.created = FakeClock().now();
  Script script(job, before);
  EXPECT_EQ(script.gang.generation(), 5);
  EXPECT_THAT(script.take(), ElementsAre("starting", "start worker-0"));
  script.joinAll();
  script.exits("worker-0", 1);
  script.goneAll();
  EXPECT_EQ(script.words.back(), "finish failed");
}

TEST(Gang, AnAgentThatWasToldToStopFromOutsideIsReplaced) {
  for (const ExitStatus& status : {ExitStatus{0, 15}, ExitStatus{0, 0}, ExitStatus{3, 0}}) {
    Script script(plainJob(1));
    script.joinAll();
    script.take();
    script.see(ProcessExited{"worker-0", protocol::Exited{.status = status, .asked = true}});
    EXPECT_THAT(script.take()[0], HasSubstr("was asked to stop from outside"));
    script.goneAll();
    EXPECT_EQ(script.gang.failures(), 0);
    EXPECT_EQ(script.gang.generation(), 2) << "also a program that ends well when it is told to";
  }
}

}  // namespace
}  // namespace dure::gang
