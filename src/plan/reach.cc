#include "plan/reach.h"

#include <algorithm>
#include <numeric>

namespace dure::plan {
namespace {

// So far below 0 that no sum of nodes brings it back.
constexpr int kNoWay = -(1 << 30);

}  // namespace

std::vector<ZoneView> viewZones(const Threshold& threshold, const std::vector<Zone>& zones) {
  std::vector<ZoneView> views;
  for (const Zone& zone : zones) {
    ZoneView view;
    for (const Rack& rack : zone) {
      view.racks.push_back(&rack);
      view.gain += rack.profile().gain;
    }
    view.must_be_used = view.gain > threshold.spare;
    views.push_back(std::move(view));
  }
  return views;
}

Reach::Reach(const std::vector<ZoneView>& zones, Budget most)
    : most_(most),
      size_(static_cast<std::size_t>(most.zones + 1) * static_cast<std::size_t>(most.racks + 1) *
            static_cast<std::size_t>(most.loss + 1)),
      before_zone_(zones.size() + 1),
      before_rack_(zones.size()) {
  budgets_.reserve(size_);
  for (int z = 0; z <= most.zones; ++z) {
    for (int r = 0; r <= most.racks; ++r) {
      for (int loss = 0; loss <= most.loss; ++loss) budgets_.push_back({z, r, loss});
    }
  }
  before_zone_[zones.size()].assign(size_, 0);
  for (std::size_t z = zones.size(); z-- > 0;) {
    const ZoneView& zone = zones[z];
    auto& tables = before_rack_[z];
    tables.resize(zone.racks.size() + 1);
    tables.back() = before_zone_[z + 1];
    for (std::size_t r = zone.racks.size(); r-- > 0;) {
      tables[r] = useOrSkip(*zone.racks[r], tables[r + 1]);
    }
    before_zone_[z] = enterOrSkip(zone, tables.front(), before_zone_[z + 1]);
  }
}

double Reach::work(const std::vector<ZoneView>& zones, Budget most) {
  double racks = 1;
  for (const ZoneView& zone : zones) racks += static_cast<double>(zone.racks.size()) + 1;
  return racks * (most.zones + 1.0) * (most.racks + 1.0) * (most.loss + 1.0) * (most.loss + 2.0) /
         2;
}

std::vector<int> Reach::useOrSkip(const Rack& rack, const std::vector<int>& rest) const {
  std::vector<int> table(size_, kNoWay);
  const Profile& profile = rack.profile();
  const std::size_t charged = rack.mustBeUsed() ? 0 : index({0, 1, 0});
  for (std::size_t i = 0; i < size_; ++i) {
    const Budget& left = budget(i);
    if (profile.gain <= left.loss) table[i] = rest[i - static_cast<std::size_t>(profile.gain)];
    if (charged > 0 && left.racks == 0) continue;
    for (int loss = 0; loss <= left.loss; ++loss) {
      const auto lost = static_cast<std::size_t>(loss);
      table[i] = std::max(table[i], profile.nodes[lost] + rest[i - charged - lost]);
    }
  }
  return table;
}

std::vector<int> Reach::enterOrSkip(const ZoneView& zone, const std::vector<int>& inside,
                                    const std::vector<int>& rest) const {
  if (zone.must_be_used) return inside;
  std::vector<int> table(size_, kNoWay);
  for (std::size_t i = 0; i < size_; ++i) {
    const Budget& left = budget(i);
    if (left.zones > 0) table[i] = inside[i - index({1, 0, 0})];
    if (zone.gain <= left.loss) {
      table[i] = std::max(table[i], rest[i - static_cast<std::size_t>(zone.gain)]);
    }
  }
  return table;
}

std::vector<std::size_t> largest(std::size_t count, std::size_t limit,
                                 const std::function<int(std::size_t)>& value) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  if (count <= limit) return order;
  const auto before = [&](std::size_t a, std::size_t b) {
    return value(a) != value(b) ? value(a) > value(b) : a < b;
  };
  std::nth_element(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(limit), order.end(),
                   before);
  order.resize(limit);
  return order;
}

std::optional<int> fewestGroups(const Threshold& threshold, const std::vector<Profile>& groups,
                                double max_work) {
  const int losses = threshold.spare + 1;
  int forced = 0;
  for (const Profile& group : groups) forced += group.gain > threshold.spare ? 1 : 0;
  const int optional = static_cast<int>(groups.size()) - forced;
  for (int most = std::min(1, optional);; most = std::min(2 * most, optional)) {
    const double work =
        static_cast<double>(groups.size()) * (most + 1.0) * losses * (losses + 1.0) / 2;
    if (work > max_work) return std::nullopt;
    // By [optional groups used][loss], at most: how many nodes.
    const auto at = [&](int used, int loss) {
      const int place = used * losses + loss;
      return static_cast<std::size_t>(place);
    };
    std::vector<int> reach(at(most + 1, 0), 0);
    for (const Profile& group : groups) {
      const bool must = group.gain > threshold.spare;
      for (int used = most; used >= 0; --used) {
        // From the largest loss down, so that what is read is still without this group.
        for (int loss = losses - 1; loss >= 0; --loss) {
          int best = group.gain <= loss ? reach[at(used, loss - group.gain)] : kNoWay;
          for (int lost = 0; lost <= loss && (must || used > 0); ++lost) {
            best = std::max(best, group.nodes[static_cast<std::size_t>(lost)] +
                                      reach[at(must ? used : used - 1, loss - lost)]);
          }
          reach[at(used, loss)] = best;
        }
      }
    }
    for (int used = 0; used <= most; ++used) {
      if (reach[at(used, losses - 1)] >= threshold.count) return forced + used;
    }
    if (most == optional) return std::nullopt;
  }
}

}  // namespace dure::plan
