#pragma once

#include <cstdint>
#include <functional>
#include <numeric>
#include <vector>

namespace dure {

// How many numbers there are in something of this shape.
inline std::int64_t elementsOf(const std::vector<std::int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

}  // namespace dure
