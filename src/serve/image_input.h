#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace dure::serve {

// The pixels of a picture, a byte each: grey or red, green, blue, rows from above.
struct Picture {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t channels = 1;  // or 3
  std::vector<std::uint8_t> pixels;
};

// A PNG or a JPEG. Invalid for anything else, for a damaged one, and for one of more than 40
// million pixels, before any memory is taken for them.
Result<Picture> decodePicture(std::string_view bytes);

// The picture as a sample of `shape` ({height, width} or {height, width, 1 or 3}), 0 to 255,
// appended to `out`: grey or coloured as the model wants it, and stretched to its size (each pixel
// the mean of what it covers). Takes no memory but for the sample. Invalid if no picture fits such
// a shape.
Status appendPicture(const Picture& picture, std::span<const std::int64_t> shape,
                     std::vector<float>& out);

}  // namespace dure::serve
