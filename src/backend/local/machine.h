#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/inventory.h"
#include "spec/job.h"

// What this machine has to give.
namespace dure::local {

// The GPUs that programs may be given, as CUDA names them: those of CUDA_VISIBLE_DEVICES if it is
// set, else of /dev/nvidiaN. Nothing if neither tells: there may be GPUs of another kind.
std::optional<std::vector<std::string>> machineGpus();

// One node: processors that this process may use, memory that is available, GPUs.
plan::Inventory machineInventory(const spec::NodeChoice& names);

// The processors that this process may use.
int coreCount();

}  // namespace dure::local
