#pragma once

#include <chrono>

#include "base/result.h"
#include "runs/run_store.h"

namespace dure::runs {

// Ends what a coordinator that was killed has left of its run on this machine, and returns when it
// is gone. Agents and their guardians end by themselves, and get time; it kills programs, which it
// knows by the task's directory in their environment, with everything below them.
// Unavailable, naming them, if there are some after `patience`. Only for who has the run's lock.
Status endLeftovers(const RunPaths& paths, std::chrono::milliseconds patience);

}  // namespace dure::runs
