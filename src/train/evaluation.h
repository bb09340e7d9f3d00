#pragma once

#include "group/group.h"
#include "train/loss.h"
#include "train/network.h"
#include "train/training_data.h"

namespace dure::train {

struct Evaluation {
  double loss = 0;
  double accuracy = 0;
};

// Of the whole test set: every worker takes its part, and the sums are exact. All workers call it
// together and get the same.
Result<Evaluation> evaluate(Network& network, const TrainingData& data, LossType loss,
                            group::Group& group);

// Invalid if a weight is NaN or infinite, which the loss shows only in the next step.
Status checkWeights(Network& network, std::int64_t step);

}  // namespace dure::train
