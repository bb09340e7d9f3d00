#include "plan/place.h"

#include <algorithm>

#include "base/text.h"
#include "plan/choose.h"
#include "plan/shortage.h"

namespace dure::plan {
namespace {

// Beyond it weights are taken as equal; their squares can still be added up.
constexpr std::int64_t kMaxWeight = 1 << 24;

std::int64_t weightOf(const Request& request, const Node& node) {
  std::int64_t weight = 0;
  if (request.gpus > 0 || request.split > 0) {
    weight = node.free.count(request.nodes.gpu);
  } else if (request.millicores > 0) {
    weight = node.free.millicores;
  } else if (request.memory > 0) {
    weight = node.free.memory / kMebibyte;
  }
  return std::clamp<std::int64_t>(weight, 0, kMaxWeight);
}

// The units that a node takes: tasks, or GPUs if these are split.
std::int64_t unitsOf(const Request& request, const Node& node) {
  const std::int64_t tasks = tasksThatFit(request, node);
  if (request.split == 0) return tasks;
  return tasks > 0 ? std::max<std::int64_t>(node.free.count(request.nodes.gpu), 0) : 0;
}

std::vector<Candidate> candidatesFor(const Request& request, const Inventory& inventory, int most) {
  std::vector<Candidate> candidates;
  candidates.reserve(inventory.nodes.size());
  for (const Node& node : inventory.nodes) {
    if (!refusal(request.nodes, node).empty()) continue;
    const std::int64_t units = std::min<std::int64_t>(unitsOf(request, node), most);
    if (units < 1) continue;
    candidates.push_back({&node, static_cast<int>(units), weightOf(request, node)});
  }
  return candidates;
}

std::int64_t sumOf(const std::vector<Candidate>& candidates) {
  std::int64_t sum = 0;
  for (const Candidate& candidate : candidates) sum += candidate.capacity;
  return sum;
}

Placement sharesOf(const Request& request, const Choice& choice, const std::vector<int>& units) {
  Placement placement{.zones = choice.zones,
                      .racks = choice.racks,
                      .fewest_racks = choice.fewest_racks,
                      .tightest = choice.tightest};
  for (std::size_t i = 0; i < choice.nodes.size(); ++i) {
    const Node& node = *choice.nodes[i].node;
    NodeShare share{.node = node.name, .zone = node.zone, .rack = node.rack};
    share.tasks = request.split > 0 ? 1 : units[i];
    share.gpus = request.split > 0 ? units[i] : units[i] * request.gpus;
    share.free_gpus = node.free.count(request.nodes.gpu);
    placement.shares.push_back(std::move(share));
  }
  // The chief's node comes first, so that the ranks of every node are next to each other.
  const auto count = placement.shares.size();
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t share = (count - 1 + i) % count;
    placement.share_of_task.insert(placement.share_of_task.end(),
                                   static_cast<std::size_t>(placement.shares[share].tasks),
                                   static_cast<int>(share));
  }
  return placement;
}

// Every node but the last is filled. As the nodes are the fewest, something is left for the last.
std::vector<int> fill(const Choice& choice, int wanted) {
  std::vector<int> units;
  for (const Candidate& candidate : choice.nodes) {
    units.push_back(std::min(candidate.capacity, wanted));
    wanted -= units.back();
  }
  return units;
}

// By the size of a share, up to `most`: how many candidates can give it.
std::vector<std::int64_t> giversOf(const std::vector<Candidate>& candidates, int most) {
  std::vector<std::int64_t> givers(static_cast<std::size_t>(most) + 1);
  for (const Candidate& candidate : candidates) {
    ++givers[static_cast<std::size_t>(candidate.capacity)];
  }
  for (std::size_t share = givers.size() - 1; share-- > 0;) givers[share] += givers[share + 1];
  return givers;
}

// The fewest nodes that can give `gpus` in equal shares; 0 if none can.
int evenNodes(const std::vector<Candidate>& candidates, int gpus) {
  const std::vector<std::int64_t> givers = giversOf(candidates, gpus);
  for (int nodes = 1; nodes <= gpus; ++nodes) {
    if (gpus % nodes == 0 && givers[static_cast<std::size_t>(gpus / nodes)] >= nodes) return nodes;
  }
  return 0;
}

// The most GPUs below `gpus` that can be had in equal shares.
std::int64_t largestEven(const std::vector<Candidate>& candidates, int gpus) {
  const std::vector<std::int64_t> givers = giversOf(candidates, gpus);
  std::int64_t largest = 0;
  for (std::int64_t share = 1; share < gpus; ++share) {
    const std::int64_t nodes =
        std::min<std::int64_t>(givers[static_cast<std::size_t>(share)], (gpus - 1) / share);
    largest = std::max(largest, share * nodes);
  }
  return largest;
}

}  // namespace

std::variant<Placement, Shortage> place(const Request& request, const Inventory& inventory) {
  const int most = request.split > 0 ? request.split : request.most;
  const int fewest = request.split > 0 ? request.split : request.fewest;
  std::vector<Candidate> candidates = candidatesFor(request, inventory, most);
  if (request.split > 0 && request.even) {
    const int nodes = evenNodes(candidates, request.split);
    if (nodes == 0) {
      return explainShortage(request, inventory, largestEven(candidates, request.split));
    }
    const int share = request.split / nodes;
    std::erase_if(candidates, [&](const Candidate& c) { return c.capacity < share; });
    for (Candidate& candidate : candidates) candidate.capacity = 1;
    const Choice choice = *chooseNodes(candidates, nodes);
    return sharesOf(request, choice, std::vector<int>(choice.nodes.size(), share));
  }
  const std::int64_t all = sumOf(candidates);
  if (all < fewest) return explainShortage(request, inventory, all);
  const int wanted = static_cast<int>(std::min<std::int64_t>(most, all));
  const Choice choice = *chooseNodes(candidates, wanted);
  return sharesOf(request, choice, fill(choice, wanted));
}

std::variant<Placement, Shortage> placeElsewhere(const Request& request, const Inventory& inventory,
                                                 const std::set<std::string>& avoided) {
  Inventory others = inventory;
  std::erase_if(others.nodes, [&](const Node& node) { return avoided.contains(node.name); });
  if (others.nodes.size() < inventory.nodes.size()) {
    auto elsewhere = place(request, others);
    if (std::holds_alternative<Placement>(elsewhere)) return elsewhere;
  }
  return place(request, inventory);
}

}  // namespace dure::plan
