#pragma once

#include <vector>

#include "plan/search.h"

namespace dure::plan {

// The threshold's count of nodes from few zones and racks, and a tight fit within these, without a
// promise that there is nothing better. For inventories whose exact search would take too long.
std::vector<Candidate> chooseGreedily(const Threshold& threshold, const std::vector<Zone>& zones,
                                      double max_work);

}  // namespace dure::plan
