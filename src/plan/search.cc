#include "plan/search.h"

#include <algorithm>

#include "plan/reach.h"
#include "plan/tightest.h"

namespace dure::plan {
namespace {

Profile profileOf(const Threshold& threshold, const Zone& zone) {
  Profile profile;
  int used = 0;
  std::vector<int> below(static_cast<std::size_t>(threshold.spare) + 1);
  for (const Rack& rack : zone) {
    profile.gain += rack.profile().gain;
    used += rack.full();
    const std::vector<int> more = rack.below();
    for (std::size_t d = 1; d < more.size(); ++d) below[d] += more[d];
  }
  int loss = 0;
  profile.nodes.assign(below.size(), std::min(used, threshold.count));
  for (int d = 1; d <= threshold.spare; ++d) {
    for (int i = 0; i < below[static_cast<std::size_t>(d)] && loss + d <= threshold.spare; ++i) {
      loss += d;
      ++used;
      std::fill(profile.nodes.begin() + loss, profile.nodes.end(), std::min(used, threshold.count));
    }
  }
  return profile;
}

int countForcedRacks(const std::vector<ZoneView>& zones) {
  int forced = 0;
  for (const ZoneView& zone : zones) {
    for (const Rack* rack : zone.racks) forced += rack->mustBeUsed() ? 1 : 0;
  }
  return forced;
}

// Leaves in each zone the racks of which some use, at some loss, is among the best `limit`: with no
// more racks than that in use, one of the best is free to stand in for any other. Racks with nodes
// above the level stay.
void keepUseful(std::vector<ZoneView>& zones, int limit, int losses) {
  for (ZoneView& zone : zones) {
    if (zone.racks.size() <= static_cast<std::size_t>(limit)) continue;
    std::vector<bool> keep(zone.racks.size());
    std::vector<std::size_t> plain;
    for (std::size_t i = 0; i < zone.racks.size(); ++i) {
      keep[i] = zone.racks[i]->profile().gain > 0;
      if (!keep[i]) plain.push_back(i);
    }
    for (std::size_t loss = 0; loss < static_cast<std::size_t>(losses); ++loss) {
      const auto nodes = [&](std::size_t i) { return zone.racks[plain[i]]->profile().nodes[loss]; };
      for (const std::size_t i : largest(plain.size(), static_cast<std::size_t>(limit), nodes)) {
        keep[plain[i]] = true;
      }
    }
    dropRacks(zone, keep);
  }
}

struct Fewest {
  Budget budget;  // beside what must be used
  int reach = 0;  // nodes that can be had with it
};

// With so many zones, the fewest racks.
std::optional<Fewest> fewestRacks(const Threshold& threshold, const std::vector<ZoneView>& zones,
                                  int optional_zones, double max_work) {
  std::size_t all = 0;
  for (const ZoneView& zone : zones) all += zone.racks.size();
  const int optional = static_cast<int>(all) - countForcedRacks(zones);
  for (int most = std::min(1, optional);; most = std::min(2 * most, optional)) {
    std::vector<ZoneView> views = zones;
    keepUseful(views, most, threshold.spare + 1);
    const Budget budget{.zones = optional_zones, .racks = most, .loss = threshold.spare};
    if (Reach::work(views, budget) > max_work) return std::nullopt;
    const Reach reach(views, budget);
    for (int racks = 0; racks <= most; ++racks) {
      const Budget tried{.zones = optional_zones, .racks = racks, .loss = threshold.spare};
      const int nodes = reach.beforeZone(0)[reach.index(tried)];
      if (nodes >= threshold.count) return Fewest{tried, nodes};
    }
    if (most == optional) return std::nullopt;
  }
}

}  // namespace

std::optional<Found> searchExactly(const Threshold& threshold, const std::vector<Zone>& zones,
                                   double max_work) {
  std::vector<Profile> profiles;
  int forced_zones = 0;
  for (const Zone& zone : zones) {
    profiles.push_back(profileOf(threshold, zone));
    forced_zones += profiles.back().gain > threshold.spare ? 1 : 0;
  }
  const auto zone_count = fewestGroups(threshold, profiles, max_work);
  if (!zone_count) return std::nullopt;
  const std::vector<ZoneView> views = viewZones(threshold, zones);
  const auto fewest = fewestRacks(threshold, views, *zone_count - forced_zones, max_work);
  if (!fewest) return std::nullopt;
  Found found{.nodes = {},
              .tightest = true,
              .zones = *zone_count,
              .racks = fewest->budget.racks + countForcedRacks(views)};
  auto nodes = tightestFit(threshold, views, fewest->budget, fewest->reach, max_work);
  found.tightest = nodes.has_value();
  if (nodes) found.nodes = std::move(*nodes);
  return found;
}

}  // namespace dure::plan
