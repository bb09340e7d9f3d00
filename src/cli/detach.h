#pragma once

#include <functional>
#include <string>

#include "cli/command.h"

namespace dure::cli {

using Begun = std::function<void(const std::string& run)>;

// Runs `go` in a process of its own that outlives this one and its terminal, and returns as soon as
// it has said by `begun` that the run exists (then its name is printed), or has failed before (then
// its words and its exit code are ours). From then on what it says goes into the run's
// coordinator.log.
int detach(Context& context, runs::RunStore& store,
           const std::function<int(Context&, const Begun&)>& go);

}  // namespace dure::cli
