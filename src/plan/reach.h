#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "plan/search.h"

namespace dure::plan {

// What may still be used: zones and racks beside those that must be, and loss.
struct Budget {
  int zones = 0;
  int racks = 0;
  int loss = 0;
};

// A zone as the search sees it: those of its racks that are worth a look.
struct ZoneView {
  std::vector<const Rack*> racks;
  int gain = 0;  // of all of them
  bool must_be_used = false;
};

std::vector<ZoneView> viewZones(const Threshold& threshold, const std::vector<Zone>& zones);

// For every point of the way through all zones and racks, and every budget: how many nodes the rest
// of the way can give at most. Zones and racks that must be used are not charged.
class Reach {
 public:
  Reach(const std::vector<ZoneView>& zones, Budget most);

  static double work(const std::vector<ZoneView>& zones, Budget most);

  Budget most() const { return most_; }
  // Entries of one table.
  std::size_t size() const { return size_; }
  std::size_t index(const Budget& budget) const {
    return (static_cast<std::size_t>(budget.zones) * static_cast<std::size_t>(most_.racks + 1) +
            static_cast<std::size_t>(budget.racks)) *
               static_cast<std::size_t>(most_.loss + 1) +
           static_cast<std::size_t>(budget.loss);
  }
  const Budget& budget(std::size_t index) const { return budgets_[index]; }

  // Negative: there is no way. `zone` may be the number of zones: behind the last.
  const std::vector<int>& beforeZone(std::size_t zone) const { return before_zone_[zone]; }
  // Inside of a zone that is used; `rack` may be the number of its racks.
  const std::vector<int>& beforeRack(std::size_t zone, std::size_t rack) const {
    return before_rack_[zone][rack];
  }

 private:
  std::vector<int> useOrSkip(const Rack& rack, const std::vector<int>& rest) const;
  std::vector<int> enterOrSkip(const ZoneView& zone, const std::vector<int>& inside,
                               const std::vector<int>& rest) const;

  Budget most_;
  std::size_t size_;
  std::vector<Budget> budgets_;  // by index
  std::vector<std::vector<int>> before_zone_;
  std::vector<std::vector<std::vector<int>>> before_rack_;
};

// The fewest of the groups from which `count` nodes can be had without losing more than `spare`.
// There is a way if all are used. Nothing if it would take too long to find out.
std::optional<int> fewestGroups(const Threshold& threshold, const std::vector<Profile>& groups,
                                double max_work);

// Indices of those of `count` groups of which `value(group)` is among the `limit` largest; of equal
// ones the first.
std::vector<std::size_t> largest(std::size_t count, std::size_t limit,
                                 const std::function<int(std::size_t)>& value);

}  // namespace dure::plan
