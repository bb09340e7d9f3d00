#pragma once

#include <optional>
#include <vector>

#include "plan/rack.h"

namespace dure::plan {

using Zone = std::vector<Rack>;  // in the order of their names

struct Found {
  std::vector<Candidate> nodes;
  bool tightest = true;  // false: the fit was too much work, and nodes are empty
  int zones = 0;
  int racks = 0;
};

// Steps after which a part of the search gives up: about a tenth of a second.
inline constexpr double kMaxWork = 3e7;

// The threshold's count of nodes, from the fewest zones, among these from the fewest racks, among
// these with the least cost. Nothing if that would take more than about `max_work` steps.
std::optional<Found> searchExactly(const Threshold& threshold, const std::vector<Zone>& zones,
                                   double max_work);

}  // namespace dure::plan
