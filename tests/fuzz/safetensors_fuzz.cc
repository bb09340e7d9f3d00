// Any bytes are refused as a .safetensors file, or hold arrays that lie one after the other and
// fill the file to its end.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>

#include "format/safetensors_parse.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const dure::format::FileBytes file{
      .name = "fuzz", .bytes = {reinterpret_cast<const std::byte*>(data), size}, .owner = nullptr};
  const auto content = dure::format::parseSafetensors(file);
  if (!content) return 0;
  volatile double sum = 0;
  std::size_t total = 0;
  for (const auto& [name, array] : content->arrays) {
    total += array.bytes();
    const std::size_t width = dure::format::sizeOf(array.dtype);
    for (std::size_t at = 0; at < array.bytes(); at += width) {
      sum = sum + dure::format::numberAt(array.dtype, array.data + at);
    }
  }
  if (total < size) return 0;
  std::cerr << "broken: the arrays are larger than the file\n";
  std::abort();
}
