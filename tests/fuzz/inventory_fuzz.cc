// Any text is refused as an inventory, or is one in which plans fit or are refused with a reason.
// The first bytes say what is asked for.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <map>
#include <string_view>

#include "plan/kubernetes_objects.h"
#include "plan/place.h"

namespace {

using namespace dure;

void require(bool holds, const char* what) {
  if (holds) return;
  std::cerr << "broken: " << what << "\n";
  std::abort();
}

void check(const plan::Request& request, const plan::Inventory& inventory) {
  const auto outcome = plan::place(request, inventory);
  if (const auto* shortage = std::get_if<plan::Shortage>(&outcome)) {
    require(shortage->largest < shortage->wanted, "what does not fit is more than what does");
    require(!shortage->message().empty() && !shortage->waiting().empty(), "there is a reason");
    return;
  }
  std::map<std::string, const plan::Node*> nodes;
  for (const plan::Node& node : inventory.nodes) nodes[node.name] = &node;
  std::int64_t gpus = 0;
  for (const plan::NodeShare& share : std::get<plan::Placement>(outcome).shares) {
    const plan::Node& node = *nodes.at(share.node);
    require(node.ready && node.schedulable, "only nodes that can be used are");
    require(share.tasks <= node.free.pods, "there are places");
    require(share.gpus <= node.free.count(request.nodes.gpu) || share.gpus == 0, "GPUs are free");
    require(share.tasks * request.millicores <= node.free.millicores || request.millicores == 0,
            "CPUs are free");
    gpus += share.gpus;
  }
  require(request.split == 0 || gpus == request.split, "all GPUs are there");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 3) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 3, size - 3);
  const auto inventory = plan::parseInventory(text, spec::NodeChoice{}, TimePoint{});
  if (!inventory) return 0;
  check({.millicores = data[1] * 10, .split = 1 + data[0], .even = data[2] % 2 == 1}, *inventory);
  check({.millicores = data[1] * 10, .gpus = data[2] % 4, .fewest = 1, .most = 1 + data[0]},
        *inventory);
  return 0;
}
