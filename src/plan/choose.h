#pragma once

#include <optional>
#include <vector>

#include "plan/candidate.h"
#include "plan/search.h"

namespace dure::plan {

struct Choice {
  std::vector<Candidate> nodes;  // largest first; of equal ones the lightest, then by name
  int zones = 0;
  int racks = 0;
  bool fewest_racks = true;  // false: perhaps fewer zones or racks would do
  bool tightest = true;      // false: perhaps less could be left over
};

// The fewest nodes whose capacities reach `wanted`, 1 or more; among these from the fewest zones,
// then the fewest racks, then with the least free in sum; what then is still equal is decided by
// names. Nothing if all candidates together do not reach it. The order of the candidates makes no
// difference. The number of nodes is always the fewest; the rest is, if it was not more than
// `max_work` steps.
std::optional<Choice> chooseNodes(const std::vector<Candidate>& candidates, int wanted,
                                  double max_work = kMaxWork);

}  // namespace dure::plan
