#pragma once

#include <memory>

#include "base/result.h"
#include "spec/job.h"
#include "train/rank_environment.h"

namespace dure::train {

// Trains as the job says, together with the other workers, from the newest checkpoint if there is
// one, and writes the model. Returns when all of that is done.
Status train(const spec::Job& job, const RankEnvironment& here);

}  // namespace dure::train
