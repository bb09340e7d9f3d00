#pragma once

#include "base/result.h"
#include "runs/run_store.h"

namespace dure::cli {

// Asks the process in charge of the run to end it, gently or at once, and waits until it has.
// Success also if nobody is in charge.
Status stopRun(const RunStore& store, const RunId& id, bool at_once);

}  // namespace dure::cli
