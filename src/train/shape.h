#pragma once

#include <cstdint>
#include <span>

#include "format/array.h"

namespace dure {

// How many numbers there are in something of this shape, which was checked before.
inline std::int64_t elementsOf(std::span<const std::int64_t> shape) {
  return checkedElements(shape).value();
}

}  // namespace dure
