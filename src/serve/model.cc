#include "serve/model.h"

#include <algorithm>

namespace dure::serve {

std::size_t classOf(std::span<const float> row) {
  if (row.size() == 1) return row[0] > 0.5F ? 1 : 0;
  return static_cast<std::size_t>(std::max_element(row.begin(), row.end()) - row.begin());
}

}  // namespace dure::serve
