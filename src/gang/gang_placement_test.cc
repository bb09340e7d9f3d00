#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gang/test_gang_script.h"

namespace dure::gang {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(Gang, WithoutAPlaceNothingStartsAndTheReasonIsToldOnce) {
  Script script(plainJob(2), {}, false);
  EXPECT_EQ(script.gang.phase(), Gang::Phase::kPlacing);
  script.see(GangWaits{"waiting for 2 GPUs"});
  script.see(GangWaits{"waiting for 2 GPUs"});
  EXPECT_THAT(script.take(), ElementsAre("pending: waiting for 2 GPUs"));
  script.pass(Duration(3'600'000));
  EXPECT_THAT(script.take(), IsEmpty()) << "waiting for free nodes is no failure";
  script.see(GangPlaced{makeRoster(script.job, 2)});
  EXPECT_THAT(script.take(), ElementsAre("starting", "start worker-0", "start worker-1"));
}

TEST(Gang, AStopOrTheDeadlineEndsTheWaitingForAPlace) {
  Script stopped(plainJob(1), {}, false);
  stopped.see(StopAsked{.why = "asked"});
  EXPECT_THAT(stopped.take(), ElementsAre("finished: asked", "finish stopped"));
  spec::Job job = plainJob(1);
  job.deadline = Duration(1000);
  Script late(job, {}, false);
  late.pass(Duration(1001));
  EXPECT_EQ(late.take().back(), "finish failed");
}

TEST(Gang, ThePlaceDecidesHowManyWorkersThereAreAndTheNextGenerationAsksForAllAgain) {
  spec::Job job = plainJob(4);
  job.workers = {2, 4};
  Script script(job, {}, false);
  script.see(GangPlaced{makeRoster(script.job, 3)});
  EXPECT_EQ(script.gang.roster().workers, 3);
  script.joinAll();
  script.see(TaskLost{"worker-2", "its pod is being deleted"});
  script.goneAll();
  EXPECT_EQ(script.gang.phase(), Gang::Phase::kPlacing);
  EXPECT_EQ(script.asked, 4);
}

TEST(Gang, WhatCanNeverStartEndsTheRunAtOnceUnlessItHasRunBefore) {
  Script script(plainJob(2));
  script.see(TaskRefused{.task = "worker-1", .why = "cannot pull image x", .for_good = true});
  script.goneAll();
  EXPECT_THAT(script.words,
              testing::Contains(HasSubstr("worker-1 cannot start: cannot pull image x")));
  EXPECT_EQ(script.words.back(), "finish infrastructure failed");
  Script again(plainJob(2));
  again.joinAll();
  again.see(TaskLost{"worker-0", "gone"});
  again.goneAll();
  again.see(TaskRefused{.task = "worker-1", .why = "cannot pull image x", .for_good = true});
  again.goneAll();
  EXPECT_NE(again.gang.phase(), Gang::Phase::kFinished);
}

TEST(Gang, WherePlacesChangeTheGangIsPlacedAnewIfSomebodyDoesNotComeInTime) {
  spec::Job job = plainJob(2);
  job.timeouts.start = Duration(1000);
  Script script(job, {}, false);
  script.see(GangPlaced{makeRoster(script.job, 2), true});
  script.see(TaskJoined{"worker-0", "host", 7});
  script.pass(Duration(1001));
  script.goneAll();
  script.pass(job.restarts.max_backoff);
  EXPECT_EQ(script.gang.phase(), Gang::Phase::kPlacing);
}

}  // namespace
}  // namespace dure::gang
