// Any bytes are refused as a picture, or become a sample of the model's shape.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>

#include "serve/image_input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto picture = dure::serve::decodePicture({reinterpret_cast<const char*>(data), size});
  // Larger ones only take time.
  if (!picture || picture->pixels.size() > 1'000'000) return 0;
  for (const std::vector<std::int64_t>& shape :
       {std::vector<std::int64_t>{5, 3}, std::vector<std::int64_t>{2, 7, 3}}) {
    std::vector<float> out;
    const auto made = dure::serve::appendPicture(*picture, shape, out);
    const std::size_t wanted = shape.size() == 3 ? 42 : 15;
    bool right = static_cast<bool>(made) && out.size() == wanted;
    for (const float pixel : out) right = right && pixel >= -0.01F && pixel <= 255.1F;
    if (right) continue;
    std::cerr << "broken: a picture that is no sample\n";
    std::abort();
  }
  return 0;
}
