#pragma once

#include <string>

#include "base/result.h"
#include "plan/inventory.h"
#include "spec/job.h"

namespace dure::cli {

// "5,3,2": nodes node-1, node-2 and node-3 with so many free GPUs, and no limit to anything else.
Result<plan::Inventory> inventoryOfFree(const std::string& list, const spec::NodeChoice& names);

// From what `kubectl get nodes,pods -A -o json` printed; "-" is standard input.
Result<plan::Inventory> inventoryOfFile(const std::string& path, const spec::NodeChoice& names);

}  // namespace dure::cli
