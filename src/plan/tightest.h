#pragma once

#include <optional>
#include <vector>

#include "plan/reach.h"

namespace dure::plan {

// The threshold's count of nodes within the budget that cost least; `reach` is how many the budget
// could give at most, the count or more. Nothing if it would take more than `max_work` steps.
std::optional<std::vector<Candidate>> tightestFit(const Threshold& threshold,
                                                  std::vector<ZoneView> zones, Budget budget,
                                                  int reach, double max_work);

// Leaves the racks for which `keep` is true.
void dropRacks(ZoneView& zone, const std::vector<bool>& keep);

}  // namespace dure::plan
