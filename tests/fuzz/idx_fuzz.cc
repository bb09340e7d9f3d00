// Any bytes are refused as an idx file, packed or not, or are an array whose numbers can be read
// and be the samples of batches.

#include <cstddef>
#include <cstdint>

#include "batches.h"
#include "format/array_split.h"
#include "format/idx.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const dure::format::FileBytes file{
      .name = "fuzz", .bytes = {reinterpret_cast<const std::byte*>(data), size}, .owner = nullptr};
  const auto array = dure::format::readIdx(file);
  if (!array) return 0;
  volatile double sum = 0;
  for (std::int64_t i = 0; i < array->elements(); ++i)
    sum = sum + dure::format::numberAt(*array, i);
  if (array->shape.empty()) return 0;
  // With a label for each row, of its own.
  constexpr std::int64_t kMostRows = 1000;
  if (array->shape[0] > kMostRows) return 0;
  auto split = dure::format::makeArraySplit(
      "fuzz", *array, "labels",
      dure::format::makeArray(dure::format::DType::kU8, {array->shape[0]}));
  if (!split) return 0;
  dure::format::Source source;
  source.train = *std::move(split);
  dure::tests::trainOn(std::move(source));
  return 0;
}
