#pragma once

#include <cstdint>
#include <limits>

#include <nlohmann/json.hpp>

namespace dure::train {

// Where a training is, beside its weights: all of it is in the checkpoints, so that a resumed
// training reports and decides as one that was never disturbed.
struct Progress {
  std::int64_t step = 0;  // done
  // Of the epoch so far: in all workers if they share gradients, else in this one.
  double loss_sum = 0;
  std::int64_t correct = 0;
  std::int64_t samples = 0;
  // For early stopping.
  double best_loss = std::numeric_limits<double>::max();
  int bad_epochs = 0;
  bool stopped = false;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Progress, step, loss_sum, correct, samples,
                                                best_loss, bad_epochs, stopped)

}  // namespace dure::train
