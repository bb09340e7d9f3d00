#include "plan/kubernetes_objects.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <vector>

#include <nlohmann/json.hpp>

namespace dure::plan {
namespace {

using nlohmann::json;

// The longest that a planned pod counts before the scheduler has bound it: as long as gangs wait
// for their pods unless they are told otherwise.
constexpr Duration kPlanned = spec::Timeouts{}.start;

// The value at the end of the names; null if there is none.
const json& at(const json& object, std::initializer_list<const char*> names) {
  static const json kNull;
  const json* here = &object;
  for (const char* name : names) {
    if (!here->is_object()) return kNull;
    const auto found = here->find(name);
    if (found == here->end()) return kNull;
    here = &*found;
  }
  return *here;
}

std::string text(const json& object, std::initializer_list<const char*> names) {
  const json& value = at(object, names);
  return value.is_string() ? value.get<std::string>() : "";
}

bool isTrue(const json& value) { return value.is_boolean() && value.get<bool>(); }

Error invalid(const std::string& what) { return Error(Code::kInvalid, what); }

std::int64_t roundedUp(std::int64_t milli) { return milli / 1000 + (milli % 1000 > 0 ? 1 : 0); }

// A map of quantities, added to `sum`. Names that are neither known nor of somebody's domain are of
// no interest here.
Status addQuantities(const json& quantities, Amounts& sum) {
  if (!quantities.is_object()) return {};
  for (const auto& [name, value] : quantities.items()) {
    const auto milli = parseMilli(value.is_string() ? value.get<std::string>() : value.dump());
    if (!milli) return invalid("no quantity of " + name + ": " + value.dump());
    if (name == "cpu") {
      sum.millicores = addUp(sum.millicores, *milli);
    } else if (name == "memory") {
      sum.memory = addUp(sum.memory, roundedUp(*milli));
    } else if (name == "pods") {
      sum.pods = addUp(sum.pods, roundedUp(*milli));
    } else if (name.find('/') != std::string::npos) {
      sum.add(name, roundedUp(*milli));
    }
  }
  return {};
}

void raiseTo(Amounts& most, const Amounts& other) {
  most.millicores = std::max(most.millicores, other.millicores);
  most.memory = std::max(most.memory, other.memory);
  for (const NamedAmount& amount : other.others) {
    const std::int64_t more = amount.count - most.count(amount.resource);
    if (more > 0) most.add(amount.resource, more);
  }
}

// All containers run together, after those that prepare the way, which run one by one beside those
// of them that stay.
Result<Amounts> requestOf(const json& pod) {
  Amounts together, most;
  for (const json& container : at(pod, {"spec", "initContainers"})) {
    Amounts alone = together;
    const json& requests = at(container, {"resources", "requests"});
    if (auto added = addQuantities(requests, alone); !added) return std::move(added).error();
    raiseTo(most, alone);
    if (text(container, {"restartPolicy"}) == "Always") together = alone;
  }
  for (const json& container : at(pod, {"spec", "containers"})) {
    const json& requests = at(container, {"resources", "requests"});
    if (auto added = addQuantities(requests, together); !added) return std::move(added).error();
  }
  raiseTo(most, together);
  if (auto added = addQuantities(at(pod, {"spec", "overhead"}), most); !added) {
    return std::move(added).error();
  }
  return most;
}

bool isReady(const json& node) {
  for (const json& condition : at(node, {"status", "conditions"})) {
    if (text(condition, {"type"}) == "Ready") return text(condition, {"status"}) == "True";
  }
  return false;
}

}  // namespace

std::optional<std::int64_t> parseMilli(std::string_view quantity) {
  double number = 0;
  const char* end = quantity.data() + quantity.size();
  const auto read = std::from_chars(quantity.data(), end, number);
  if (read.ec == std::errc::result_out_of_range) {
    const bool small = quantity.find("e-") != quantity.npos || quantity.find("E-") != quantity.npos;
    if (quantity.starts_with('-')) return std::nullopt;
    number = small ? 0 : HUGE_VAL;
  } else if (read.ec != std::errc() || !(number >= 0)) {
    return std::nullopt;
  }
  const std::string_view unit(read.ptr, static_cast<std::size_t>(end - read.ptr));
  constexpr std::string_view kUnits = "kMGTPE";
  double scale = 1000;
  if (unit == "m") {
    scale = 1;
  } else if (unit.size() == 2 && unit[1] == 'i') {
    const std::size_t power = std::string_view("KMGTPE").find(unit[0]);
    if (power == std::string_view::npos) return std::nullopt;
    scale *= std::pow(1024.0, static_cast<double>(power + 1));
  } else if (unit.size() == 1) {
    const std::size_t power = kUnits.find(unit[0]);
    if (power == std::string_view::npos) return std::nullopt;
    scale *= std::pow(1000.0, static_cast<double>(power + 1));
  } else if (!unit.empty()) {
    return std::nullopt;
  }
  const double milli = std::ceil(number * scale);
  if (std::isnan(milli)) return 0;  // nothing, however large its unit
  return milli > 9e18 ? kUnlimited : static_cast<std::int64_t>(milli);
}

Status InventoryBuilder::addNode(const json& object) {
  Node node;
  node.name = text(object, {"metadata", "name"});
  if (node.name.empty()) return invalid("a node without a name");
  const json& labels = at(object, {"metadata", "labels"});
  if (labels.is_object()) {
    for (const auto& [key, value] : labels.items()) {
      if (value.is_string()) node.labels[key] = value.get<std::string>();
    }
  }
  const auto label = [&](const std::string& key) {
    const auto found = node.labels.find(key);
    return found == node.labels.end() ? std::string() : found->second;
  };
  node.zone = label(names_.zone);
  node.rack = label(names_.rack);
  node.ready = isReady(object);
  node.schedulable = !isTrue(at(object, {"spec", "unschedulable"}));
  for (const json& taint : at(object, {"spec", "taints"})) {
    node.taints.push_back({text(taint, {"key"}), text(taint, {"value"}), text(taint, {"effect"})});
  }
  if (auto added = addQuantities(at(object, {"status", "allocatable"}), node.capacity); !added) {
    return std::move(added).error().during("node " + node.name);
  }
  node.free = node.capacity;
  if (!index_.emplace(node.name, inventory_.nodes.size()).second) {
    return invalid("node " + node.name + ": there are two of this name");
  }
  inventory_.nodes.push_back(std::move(node));
  return {};
}

// Where the pod is, or will be: the scheduler may not have seen it yet, but whoever planned it has
// given it this place. Anybody can write an annotation, so nothing is set aside for long on the
// strength of one.
std::string InventoryBuilder::nodeOf(const json& pod) const {
  std::string bound = text(pod, {"spec", "nodeName"});
  if (!bound.empty()) return bound;
  const std::string phase = text(pod, {"status", "phase"});
  const bool waits =
      (phase.empty() || phase == "Pending") && at(pod, {"metadata", "deletionTimestamp"}).is_null();
  const bool ours = text(pod, {"metadata", "labels", kManagedByLabel}) == kManagedByDure &&
                    !text(pod, {"metadata", "labels", kJobLabel}).empty();
  if (!waits || !ours) return "";
  const std::string created = text(pod, {"metadata", "creationTimestamp"});
  // An API server tells whole seconds.
  if (!created.empty() && now_ - parseTime(created.substr(0, 19) + ".000Z") > kPlanned) return "";
  return text(pod, {"metadata", "annotations", kNodeAnnotation});
}

void InventoryBuilder::addPod(const json& pod) {
  const std::string phase = text(pod, {"status", "phase"});
  if (phase == "Succeeded" || phase == "Failed") return;
  const auto found = index_.find(nodeOf(pod));
  if (found == index_.end()) return;
  const std::string name = text(pod, {"metadata", "name"});
  const auto request = requestOf(pod);
  Node& node = inventory_.nodes[found->second];
  if (!request) {
    node.free = {};
    return;
  }
  const json& label = at(pod, {"metadata", "labels", kJobLabel});
  node.free.millicores = addUp(node.free.millicores, -request->millicores);
  node.free.memory = addUp(node.free.memory, -request->memory);
  node.free.pods -= 1;
  for (const NamedAmount& amount : request->others) {
    node.free.add(amount.resource, -amount.count);
    if (amount.count == 0) continue;
    node.held.push_back(
        {label.is_string() ? label.get<std::string>() : name, amount.resource, amount.count});
  }
}

Result<Inventory> parseInventory(std::string_view text_given, const spec::NodeChoice& names,
                                 TimePoint now) {
  const json list = json::parse(text_given, nullptr, false);
  if (list.is_discarded()) return invalid("is not JSON");
  const json& items = at(list, {"items"});
  if (!items.is_array()) {
    return invalid("is no list of nodes, as kubectl get nodes,pods -A -o json prints it");
  }
  InventoryBuilder builder(names, now);
  for (const json& item : items) {
    if (text(item, {"kind"}) != "Node") continue;
    if (auto added = builder.addNode(item); !added) return std::move(added).error();
  }
  for (const json& item : items) {
    if (text(item, {"kind"}) == "Pod") builder.addPod(item);
  }
  return builder.take();
}

}  // namespace dure::plan
