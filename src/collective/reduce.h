#pragma once

#include <cstddef>
#include <span>

#include "collective/number.h"

namespace dure {

// Writes ((source 0 + source 1) + source 2) + … to `out`, `bytes` of each, in that order whatever
// the processor: the same inputs give the same bits. 16-bit floats are added as 32-bit ones and
// rounded once; integers wrap around. All are aligned as their numbers are.
//
// `out` may be the first or the second source, else it overlaps none. The result is also written to
// `copy`, if there is one, which may be any of the sources.
void reduce(Number number, Reduction reduction, std::byte* out,
            std::span<const std::byte* const> sources, std::size_t bytes,
            std::byte* copy = nullptr);

}  // namespace dure
