#pragma once

#include <cstdint>
#include <span>

#include "format/array.h"

namespace dure::train {

// How many numbers there are in something of this shape, which was checked before.
inline std::int64_t elementsOf(std::span<const std::int64_t> shape) {
  return format::checkedElements(shape).value();
}

}  // namespace dure::train
