#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "spec/job.h"
#include "train/reporter.h"

namespace dure::train {

struct TrainingCounts {
  std::int64_t samples = 0;
  std::int64_t steps = 0;  // that were taken
  std::int64_t steps_per_epoch = 1;
  int workers = 1;
};

// How a model was trained, as its file tells it later: see ModelAbout::trained.
std::map<std::string, std::string> trainingFacts(const spec::Train& train,
                                                 const TrainingCounts& counts,
                                                 const TrainingSummary& summary);

}  // namespace dure::train
