#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "plan/inventory.h"
#include "spec/job.h"

namespace dure {

// The label of a pod that says which job it belongs to.
inline constexpr const char* kJobLabel = "dure/job";
// The annotation of a pod that says which node it was planned for.
inline constexpr const char* kNodeAnnotation = "dure/node";

// An inventory from the objects of a Kubernetes API: first all nodes, then all pods. Invalid, with
// the name of the object, if one of them is not what it should be.
class InventoryBuilder {
 public:
  // `names` says which labels are zone and rack.
  explicit InventoryBuilder(const NodeChoice& names) : names_(names) {}

  Status addNode(const nlohmann::json& node);
  // Takes what the pod asks for from its node. Nothing happens if it has none, or has finished.
  Status addPod(const nlohmann::json& pod);

  Inventory take() { return std::move(inventory_); }

 private:
  NodeChoice names_;
  Inventory inventory_;
  std::unordered_map<std::string, std::size_t> index_;  // by name
};

// What `kubectl get nodes,pods -A -o json` prints; without pods, nodes are free.
Result<Inventory> parseInventory(std::string_view text, const NodeChoice& names);

// "500m", "2", "16Gi" in thousandths, rounded up; nothing for anything else.
std::optional<std::int64_t> parseMilli(std::string_view quantity);

}  // namespace dure
