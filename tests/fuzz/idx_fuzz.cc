// Any bytes are refused as an idx file, packed or not, or are an array whose numbers can be read.

#include <cstddef>
#include <cstdint>

#include "format/idx.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const dure::FileBytes file{
      .name = "fuzz", .bytes = {reinterpret_cast<const std::byte*>(data), size}, .owner = nullptr};
  const auto array = dure::readIdx(file);
  if (!array) return 0;
  volatile double sum = 0;
  for (std::int64_t i = 0; i < array->elements(); ++i) sum = sum + dure::numberAt(*array, i);
  return 0;
}
