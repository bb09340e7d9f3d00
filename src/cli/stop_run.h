#pragma once

#include "base/result.h"
#include "runs/run_store.h"

namespace dure::cli {

// Asks the process in charge of the run to end it, gently or at once, and waits until it has.
// If nobody is in charge, ends what is left of the run; success also if nothing is.
Status stopRun(runs::RunStore& store, const runs::RunId& id, bool at_once);

}  // namespace dure::cli
