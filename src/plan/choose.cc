#include "plan/choose.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "plan/greedy.h"

namespace dure::plan {
namespace {

struct PlaceHash {
  std::size_t operator()(const std::pair<std::string_view, std::string_view>& place) const {
    return std::hash<std::string_view>{}(place.first) * 31 +
           std::hash<std::string_view>{}(place.second);
  }
};

// Those that can be part of a choice, by zone and rack, both in the order of their names.
std::vector<Zone> groupByPlace(const Threshold& threshold,
                               const std::vector<Candidate>& candidates) {
  const int least = std::max(1, threshold.level - threshold.spare);
  std::unordered_map<std::pair<std::string_view, std::string_view>, std::size_t, PlaceHash> known;
  std::vector<std::vector<Candidate>> groups;
  for (const Candidate& candidate : candidates) {
    if (candidate.capacity < least) continue;
    const auto [found, added] =
        known.try_emplace({candidate.node->zone, candidate.node->rack}, groups.size());
    if (added) groups.emplace_back();
    groups[found->second].push_back(candidate);
  }
  std::sort(groups.begin(), groups.end(), [](const auto& a, const auto& b) {
    const Node& x = *a.front().node;
    const Node& y = *b.front().node;
    return x.zone != y.zone ? nameBefore(x.zone, y.zone) : nameBefore(x.rack, y.rack);
  });
  std::vector<Zone> zones;
  const std::string* zone = nullptr;
  for (std::vector<Candidate>& group : groups) {
    const std::string& mine = group.front().node->zone;
    if (zone == nullptr || *zone != mine) zones.emplace_back();
    zone = &mine;
    zones.back().emplace_back(threshold, std::move(group));
  }
  return zones;
}

void countPlaces(Choice& choice) {
  std::set<std::string_view> zones;
  std::set<std::pair<std::string_view, std::string_view>> racks;
  for (const Candidate& candidate : choice.nodes) {
    zones.emplace(candidate.node->zone);
    racks.emplace(candidate.node->zone, candidate.node->rack);
  }
  choice.zones = static_cast<int>(zones.size());
  choice.racks = static_cast<int>(racks.size());
}

}  // namespace

std::optional<Choice> chooseNodes(const std::vector<Candidate>& candidates, int wanted,
                                  double max_work) {
  const auto threshold = findThreshold(candidates, wanted);
  if (!threshold) return std::nullopt;
  const std::vector<Zone> zones = groupByPlace(*threshold, candidates);
  auto found = searchExactly(*threshold, zones, max_work);
  Choice choice;
  if (found && found->tightest) {
    choice.nodes = std::move(found->nodes);
    countPlaces(choice);
  } else {
    choice.nodes = chooseGreedily(*threshold, zones, max_work);
    countPlaces(choice);
    choice.fewest_racks = found && found->zones == choice.zones && found->racks == choice.racks;
    choice.tightest = false;
  }
  std::sort(choice.nodes.begin(), choice.nodes.end(), [](const Candidate& a, const Candidate& b) {
    return a.capacity != b.capacity ? a.capacity > b.capacity : takenBefore(a, b);
  });
  return choice;
}

}  // namespace dure::plan
