#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"

namespace dure::format {

// {height, width} of a grey image, {height, width, 3} of one with colours or a palette; from the
// first bytes. Invalid if this is no PNG, or if so few bytes cannot hold such an image.
Result<std::vector<std::int64_t>> pngShape(std::span<const std::byte> bytes);

// The pixels, a byte each, of an image of that shape. Transparency is left out, 16 bits become 8.
// `out` may be half written on an error.
Status decodePng(std::span<const std::byte> bytes, std::span<const std::int64_t> shape,
                 std::byte* out);

}  // namespace dure::format
