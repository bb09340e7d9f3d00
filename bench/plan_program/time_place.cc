// Times place() on made-up clusters: nodes with 8 GPUs each, of which others have taken some.
//   time_place NODES GPUS ZONES REPEAT      ZONES 0: without zones and racks, else racks of 32
//   nodes
// Prints the median milliseconds, how many nodes, racks and zones were used, and
// whether the answer is known to be the best.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <random>
#include <string>
#include <vector>

#include "plan/place.h"

namespace {

using namespace dure;

constexpr int kRackSize = 32;

plan::Inventory makeCluster(int nodes, int zones) {
  std::mt19937 random(1);
  plan::Inventory inventory;
  for (int i = 0; i < nodes; ++i) {
    plan::Node node{.name = "node-" + std::to_string(i)};
    if (zones > 0) {
      const int rack = i / kRackSize;
      node.zone = "zone-" + std::to_string(rack % zones);
      node.rack = "rack-" + std::to_string(rack);
      node.labels = {{"topology.kubernetes.io/zone", node.zone},
                     {"topology.kubernetes.io/rack", node.rack}};
    }
    node.capacity = {.millicores = 96'000, .memory = std::int64_t{1} << 40, .pods = 110};
    node.free = node.capacity;
    node.capacity.add("nvidia.com/gpu", 8);
    const auto taken = static_cast<std::int64_t>(random() % 9);
    node.free.add("nvidia.com/gpu", 8 - taken);
    node.free.millicores -= taken * 10'000;
    node.free.pods -= taken;
    inventory.nodes.push_back(std::move(node));
  }
  // An API gives them in an order of its own.
  std::shuffle(inventory.nodes.begin(), inventory.nodes.end(), random);
  return inventory;
}

// Milliseconds.
double milliseconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  const plan::Inventory inventory = makeCluster(std::atoi(argv[1]), std::atoi(argv[3]));
  const plan::Request request{.millicores = 4000, .split = std::atoi(argv[2])};
  std::vector<double> times;
  plan::Placement placement;
  for (int i = 0; i < std::atoi(argv[4]); ++i) {
    const double began = milliseconds();
    auto outcome = plan::place(request, inventory);
    times.push_back(milliseconds() - began);
    if (std::holds_alternative<plan::Shortage>(outcome)) return 1;
    placement = std::get<plan::Placement>(std::move(outcome));
  }
  std::sort(times.begin(), times.end());
  std::printf("%f %zu %d %d %s\n", times[times.size() / 2], placement.shares.size(),
              placement.racks, placement.zones,
              placement.fewest_racks && placement.tightest ? "exact" : "heuristic");
  return 0;
}
