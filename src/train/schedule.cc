#include "train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace dure::train {

double learningRate(const spec::Train& train, int workers, std::int64_t step,
                    std::int64_t steps_per_epoch, std::int64_t steps) {
  const spec::Schedule& schedule = train.schedule;
  const double rate = train.optimizer.lr * (schedule.scale_with_workers ? workers : 1);
  if (step < schedule.warmup) {
    return rate * static_cast<double>(step + 1) / static_cast<double>(schedule.warmup);
  }
  const double left = static_cast<double>(std::max<std::int64_t>(1, steps - schedule.warmup));
  const double done = std::min(1.0, static_cast<double>(step - schedule.warmup) / left);
  switch (schedule.shape) {
    case spec::ScheduleShape::kConstant:
      return rate;
    case spec::ScheduleShape::kLinear:
      return rate * (1 - done * (1 - schedule.floor));
    case spec::ScheduleShape::kCosine:
      return rate *
             (schedule.floor + (1 - schedule.floor) * (1 + std::cos(std::numbers::pi * done)) / 2);
    case spec::ScheduleShape::kStep:
      return rate *
             std::pow(schedule.gamma, static_cast<double>(step / steps_per_epoch / schedule.every));
  }
  return rate;
}

}  // namespace dure::train
