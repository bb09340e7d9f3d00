#pragma once

#include <functional>

#include <nlohmann/json_fwd.hpp>

#include "kube/client.h"
#include "plan/inventory.h"
#include "spec/job.h"

namespace dure::kubernetes {

// What the nodes of the cluster have to give now, less what pods that have not ended ask for; those
// that are `ours` would make room.
// Denied if the user may not list nodes, and pods of all namespaces.
Result<plan::Inventory> readInventory(kube::KubeClient& client, const spec::NodeChoice& names,
                                      const std::function<bool(const nlohmann::json&)>& ours = {});

}  // namespace dure::kubernetes
