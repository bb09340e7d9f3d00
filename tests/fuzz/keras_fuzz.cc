// Any bytes are refused as a Keras file, or are a model whose weights can be read.

#include <cstddef>
#include <cstdint>

#include "format/keras_parse.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const dure::FileBytes file{
      .name = "fuzz", .bytes = {reinterpret_cast<const std::byte*>(data), size}, .owner = nullptr};
  const auto model = dure::parseKeras(file);
  if (!model) return 0;
  volatile double sum = 0;
  for (const dure::KerasLayer& layer : model->layers) {
    for (const auto& [name, array] : layer.weights) {
      const std::size_t width = dure::sizeOf(array.dtype);
      for (std::size_t at = 0; at < array.bytes(); at += width) {
        sum = sum + dure::numberAt(array.dtype, array.data + at);
      }
    }
  }
  return 0;
}
