#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <vector>

#include "plan/inventory.h"

// The problem without its origin: nodes with a capacity and a weight, of which the fewest are to be
// chosen whose capacities reach what is wanted.
namespace dure::plan {

struct Candidate {
  const Node* node = nullptr;
  int capacity = 0;         // how many units it takes; no more than all that are wanted
  std::int64_t weight = 0;  // what is free there of the resource that matters most
};

// What a set of nodes has free, to be as small as possible: first in sum; then, so that of equal
// sums the one without the largest nodes wins, in sum of squares.
struct Cost {
  std::int64_t sum = 0;
  std::int64_t squares = 0;

  static Cost of(std::int64_t weight) { return {weight, weight * weight}; }
  Cost operator+(const Cost& other) const { return {sum + other.sum, squares + other.squares}; }
  Cost operator-(const Cost& other) const { return {sum - other.sum, squares - other.squares}; }
  std::strong_ordering operator<=>(const Cost&) const = default;
};

// The fewest nodes are the `count` largest, whose smallest has the capacity `level`. Together they
// take `spare` units more than are wanted. As `count` is the fewest, spare < level. So every other
// choice of as many nodes differs only a little from the largest ones: each node below the level
// that is taken, and each above that is left out, loses its distance from the level, and all losses
// together are `spare` at most. The search is over losses, which are small, and not over units.
struct Threshold {
  int count = 0;
  int level = 0;
  int spare = 0;
};

// Nothing if all candidates together take fewer than `wanted`, which is 1 or more.
std::optional<Threshold> findThreshold(const std::vector<Candidate>& candidates, int wanted);

// True if the first is taken before the second in a rack where both have the same capacity.
bool takenBefore(const Candidate& a, const Candidate& b);

}  // namespace dure::plan
