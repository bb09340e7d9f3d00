#include "plan/candidate.h"

namespace dure::plan {

std::optional<Threshold> findThreshold(const std::vector<Candidate>& candidates, int wanted) {
  std::vector<std::int64_t> nodes_with(static_cast<std::size_t>(wanted) + 1);
  for (const Candidate& candidate : candidates) {
    ++nodes_with[static_cast<std::size_t>(candidate.capacity)];
  }
  std::int64_t count = 0, units = 0;
  for (int capacity = wanted; capacity > 0; --capacity) {
    const std::int64_t there = nodes_with[static_cast<std::size_t>(capacity)];
    if (units + there * capacity < wanted) {
      count += there;
      units += there * capacity;
      continue;
    }
    const std::int64_t more = (wanted - units + capacity - 1) / capacity;
    return Threshold{.count = static_cast<int>(count + more),
                     .level = capacity,
                     .spare = static_cast<int>(units + more * capacity - wanted)};
  }
  return std::nullopt;
}

bool takenBefore(const Candidate& a, const Candidate& b) {
  if (a.weight != b.weight) return a.weight < b.weight;
  return nameBefore(a.node->name, b.node->name);
}

}  // namespace dure::plan
