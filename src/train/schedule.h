#pragma once

#include <cstdint>

#include "spec/job.h"

namespace dure::train {

// The learning rate of a step (from 0). Pure.
double learningRate(const spec::Train& train, int workers, std::int64_t step,
                    std::int64_t steps_per_epoch, std::int64_t steps);

}  // namespace dure::train
