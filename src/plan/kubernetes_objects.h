#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include <nlohmann/json_fwd.hpp>

#include "base/clock.h"
#include "base/result.h"
#include "plan/inventory.h"
#include "spec/job.h"

namespace dure::plan {

// The label of a pod that says which job it belongs to.
inline constexpr const char* kJobLabel = "dure/job";
// The annotation of a pod that says which node it was planned for. It is believed of pods that say
// they are Dure's own, and only for as long as a plan may wait for the scheduler to carry it out.
inline constexpr const char* kNodeAnnotation = "dure/node";
inline constexpr const char* kManagedByLabel = "app.kubernetes.io/managed-by";
inline constexpr const char* kManagedByDure = "dure";

// An inventory from the objects of a Kubernetes API: first all nodes, then all pods.
class InventoryBuilder {
 public:
  // `names` says which labels are zone and rack.
  InventoryBuilder(const spec::NodeChoice& names, TimePoint now) : names_(names), now_(now) {}

  // Invalid, with the name of the node, if it is not what it should be.
  Status addNode(const nlohmann::json& node);
  // Takes what the pod asks for from its node; all that the node has, if that cannot be made out.
  // Nothing happens if the pod has no node, or has finished.
  void addPod(const nlohmann::json& pod);

  Inventory take() { return std::move(inventory_); }

 private:
  std::string nodeOf(const nlohmann::json& pod) const;

  spec::NodeChoice names_;
  TimePoint now_;
  Inventory inventory_;
  std::unordered_map<std::string, std::size_t> index_;  // by name
};

// What `kubectl get nodes,pods -A -o json` prints; without pods, nodes are free.
Result<Inventory> parseInventory(std::string_view text, const spec::NodeChoice& names,
                                 TimePoint now);

// "500m", "2", "16Gi" in thousandths, rounded up, and the largest number for all that is larger;
// nothing for anything else.
std::optional<std::int64_t> parseMilli(std::string_view quantity);

}  // namespace dure::plan
