#include "backend/kubernetes/cluster_inventory.h"

#include <nlohmann/json.hpp>

#include "plan/kubernetes_objects.h"

namespace dure::kubernetes {

Result<plan::Inventory> readInventory(kube::KubeClient& client, const spec::NodeChoice& names,
                                      const std::function<bool(const nlohmann::json&)>& ours) {
  plan::InventoryBuilder builder(names, SystemClock().now());
  Status taken;
  auto nodes = client.list({kube::kinds::kNodes}, {}, [&](nlohmann::json&& node) {
    if (taken) taken = builder.addNode(node);
  });
  if (!nodes) return std::move(nodes).error().during("a plan needs the cluster's nodes");
  auto pods =
      client.list({kube::kinds::kPods}, {.fields = "status.phase!=Succeeded,status.phase!=Failed"},
                  [&](nlohmann::json&& pod) {
                    if (!ours || !ours(pod)) builder.addPod(pod);
                  });
  if (!pods) return std::move(pods).error().during("a plan needs to know what runs on the nodes");
  if (!taken) return std::move(taken).error();
  return builder.take();
}

}  // namespace dure::kubernetes
