#include "cli/plan_inventory.h"

#include <fmt/core.h>

#include "base/files.h"
#include "base/text.h"
#include "plan/kubernetes_objects.h"
#include "spec/scalar.h"

namespace dure::cli {
namespace {

constexpr std::size_t kMaxInventorySize = std::size_t{1} << 30;
constexpr std::int64_t kMaxFree = 1'000'000;

}  // namespace

Result<plan::Inventory> inventoryOfFree(const std::string& list, const spec::NodeChoice& names) {
  plan::Inventory inventory;
  for (const std::string& word : split(list, ',')) {
    const auto gpus = spec::readInteger(word);
    if (!gpus || *gpus < 0 || *gpus > kMaxFree) {
      return Error(Code::kInvalid,
                   fmt::format("--free: must be the free GPUs of each node, such as 5,3,2; got "
                               "\"{}\"",
                               list));
    }
    plan::Node node{.name = fmt::format("node-{}", inventory.nodes.size() + 1)};
    node.free = {
        .millicores = plan::kUnlimited, .memory = plan::kUnlimited, .pods = plan::kUnlimited};
    node.free.add(names.gpu, *gpus);
    node.capacity = node.free;
    inventory.nodes.push_back(std::move(node));
  }
  return inventory;
}

Result<plan::Inventory> inventoryOfFile(const std::string& path, const spec::NodeChoice& names) {
  const auto text = readFile(path == "-" ? "/dev/stdin" : path, kMaxInventorySize);
  if (!text) {
    // Whatever the system says of it, it is the call that names a file of no use.
    return Error(Code::kInvalid, fmt::format("--inventory: {}", text.error().message()));
  }
  auto inventory = plan::parseInventory(*text, names, SystemClock().now());
  if (!inventory) return std::move(inventory).error().during("--inventory: " + path);
  return inventory;
}

}  // namespace dure::cli
