#pragma once

#include <memory>

#include "base/result.h"
#include "spec/job.h"
#include "train/surroundings.h"

namespace dure::train {

// Trains as the job says, together with the other workers, from the newest checkpoint if there is
// one, and writes the model. Returns when all of that is done.
Status train(const spec::Job& job, const Surroundings& here);

}  // namespace dure::train
