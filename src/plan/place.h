#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "plan/inventory.h"
#include "plan/request.h"

namespace dure::plan {

// What one node gives.
struct NodeShare {
  std::string node;
  std::string zone;
  std::string rack;
  int tasks = 0;
  std::int64_t gpus = 0;       // of all its tasks
  std::int64_t free_gpus = 0;  // before
};

// Every task has a node.
struct Placement {
  std::vector<NodeShare> shares;   // largest first
  std::vector<int> share_of_task;  // by the order of ranks: task 0, the chief, has the last share
  int zones = 0;
  int racks = 0;
  // False where an inventory was too intricate to be sure, which only very large ones are.
  bool fewest_racks = true;
  bool tightest = true;
};

// The gang does not fit, and this is why.
struct Shortage {
  Request request;
  std::int64_t wanted = 0;   // tasks; with a split: GPUs
  std::int64_t largest = 0;  // of what would have fitted
  // What the nodes could take, largest first; those that could take nothing are left out.
  std::vector<std::pair<std::string, std::int64_t>> room;
  std::vector<std::string> missing;                           // "2 GPUs", of all nodes together
  std::vector<std::pair<std::string, std::int64_t>> refused;  // nodes, by why they are not used
  std::vector<std::pair<std::string, std::int64_t>> held;     // GPUs, by the job that has them
  // Why no node will ever do, as long as nobody changes their labels; empty: waiting may help.
  std::string never;

  // "6 GPUs wanted, 4 free: node-1 3, node-2 1; the largest that fits: 4"
  std::string message() const;
  // "waiting for 4 GPUs: node-1 has 2 free, node-2 1; held by job a (3), job b (2)"
  std::string waiting() const;
};

// A node for every task, or for none. In the order of importance: the whole gang fits, with as many
// tasks as allowed; the fewest nodes; the fewest zones; the fewest racks; the least left over on
// the nodes used, of GPUs if the job asks for them, else of CPUs, else of memory. The rest is
// decided by names. Pure: the same request and nodes, in any order, give the same answer.
std::variant<Placement, Shortage> place(const Request& request, const Inventory& inventory);

// The same without these nodes, if the gang fits on the others.
std::variant<Placement, Shortage> placeElsewhere(const Request& request, const Inventory& inventory,
                                                 const std::set<std::string>& avoided);

}  // namespace dure::plan
