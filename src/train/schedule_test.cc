#include "train/schedule.h"

#include <gtest/gtest.h>

namespace dure::train {
namespace {

spec::Train with(spec::Schedule schedule) {
  spec::Train train;
  train.optimizer.lr = 0.1;
  train.schedule = schedule;
  return train;
}

TEST(ScheduleTest, ConstantStaysAndScalesWithWorkersIfAsked) {
  EXPECT_DOUBLE_EQ(learningRate(with({}), 4, 50, 10, 100), 0.1);
  EXPECT_DOUBLE_EQ(learningRate(with({.scale_with_workers = true}), 4, 50, 10, 100), 0.4);
}

TEST(ScheduleTest, WarmUpRisesFromTheFirstStep) {
  const spec::Train train = with({.warmup = 10});
  EXPECT_DOUBLE_EQ(learningRate(train, 1, 0, 10, 100), 0.01);
  EXPECT_DOUBLE_EQ(learningRate(train, 1, 9, 10, 100), 0.1);
  EXPECT_DOUBLE_EQ(learningRate(train, 1, 10, 10, 100), 0.1);
}

TEST(ScheduleTest, LinearAndCosineEndAtTheirFloor) {
  for (const auto shape : {spec::ScheduleShape::kLinear, spec::ScheduleShape::kCosine}) {
    const spec::Train train = with({.shape = shape, .floor = 0.1});
    EXPECT_DOUBLE_EQ(learningRate(train, 1, 0, 10, 100), 0.1);
    EXPECT_NEAR(learningRate(train, 1, 50, 10, 100), 0.055, 1e-12);
    EXPECT_NEAR(learningRate(train, 1, 100, 10, 100), 0.01, 1e-12);
    EXPECT_NEAR(learningRate(train, 1, 1000, 10, 100), 0.01, 1e-12);
  }
}

TEST(ScheduleTest, StepsFallEverySoManyEpochs) {
  const spec::Train train = with({.shape = spec::ScheduleShape::kStep, .gamma = 0.5, .every = 2});
  EXPECT_DOUBLE_EQ(learningRate(train, 1, 19, 10, 100), 0.1);
  EXPECT_DOUBLE_EQ(learningRate(train, 1, 20, 10, 100), 0.05);
  EXPECT_DOUBLE_EQ(learningRate(train, 1, 40, 10, 100), 0.025);
}

}  // namespace
}  // namespace dure::train
