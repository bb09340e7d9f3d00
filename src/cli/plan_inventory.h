#pragma once

#include <string>

#include "base/result.h"
#include "plan/inventory.h"
#include "spec/job.h"

namespace dure::cli {

// "5,3,2": nodes node-1, node-2 and node-3 with so many free GPUs, and no limit to anything else.
Result<Inventory> inventoryOfFree(const std::string& list, const NodeChoice& names);

// From what `kubectl get nodes,pods -A -o json` printed; "-" is standard input.
Result<Inventory> inventoryOfFile(const std::string& path, const NodeChoice& names);

// This machine as the one node: its processors, the memory that is available, its GPUs. What runs
// on it is not asked.
Inventory inventoryOfMachine(const NodeChoice& names);

}  // namespace dure::cli
