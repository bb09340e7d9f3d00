// Any bytes are refused as a TorchScript file, or hold tensors that lie within them.

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "format/pickle.h"
#include "format/tensor_places.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const dure::format::FileBytes file{
      .name = "fuzz", .bytes = {reinterpret_cast<const std::byte*>(data), size}, .owner = nullptr};
  // Without the zip file around it, the pickle is found sooner.
  if (const auto pickle = dure::format::readPickle(file); pickle) {
    if (pickle->top >= pickle->values.size()) std::abort();
  }
  const auto found = dure::format::findTorchTensors(file);
  if (!found) return 0;
  volatile unsigned sum = 0;
  for (const dure::format::TensorPlace& tensor : found->tensors) {
    for (std::uint64_t i = 0; i < tensor.bytes(); ++i) {
      sum = sum + std::to_integer<unsigned>(file.bytes[tensor.offset + i]);
    }
  }
  return 0;
}
