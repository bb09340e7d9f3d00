#pragma once

#include <cstddef>
#include <span>

#include "collective/number.h"

namespace dure::collective {

// Writes ((source 0 + source 1) + source 2) + … to every one of `outs`, `bytes` of each, in that
// order whatever the processor: the same inputs give the same bits. 16-bit floats are added as
// 32-bit ones and rounded once; integers wrap around. All are aligned as their numbers are. Each of
// `outs` is one of the sources or overlaps none.
void reduce(Number number, Reduction reduction, std::span<std::byte* const> outs,
            std::span<const std::byte* const> sources, std::size_t bytes);

inline void reduce(Number number, Reduction reduction, std::byte* out,
                   std::span<const std::byte* const> sources, std::size_t bytes) {
  reduce(number, reduction, std::span<std::byte* const>(&out, 1), sources, bytes);
}

}  // namespace dure::collective
