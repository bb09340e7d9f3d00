// Any bytes as the image of a row are refused, or become the pixels of a batch.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "batches.h"
#include "format/arrow_split.h"

namespace {

// An Arrow file as its reader leaves it: two rows of bytes, the same ones, and a label each.
dure::format::ArrowFile fileOf(const dure::format::FileBytes& twice,
                               const std::vector<std::byte>& numbers) {
  dure::format::ArrowFile file{.file = twice};
  file.schema.fields.push_back(
      {.name = "image", .kind = dure::format::ArrowKind::kBinary, .wide = true, .children = {}});
  file.schema.fields.push_back({.name = "label",
                                .kind = dure::format::ArrowKind::kNumber,
                                .dtype = dure::format::DType::kI64,
                                .children = {}});
  dure::format::ArrowBatch batch{.rows = 2};
  const std::span<const std::byte> all = numbers;
  batch.columns.push_back({.length = 2, .offsets = all, .data = twice.bytes, .children = {}});
  batch.columns.push_back({.length = 2, .data = all.first(16), .children = {}});
  file.batches.push_back(std::move(batch));
  return file;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<std::byte> twice(2 * size);
  if (size > 0) {
    std::memcpy(twice.data(), data, size);
    std::memcpy(twice.data() + size, data, size);
  }
  const std::uint64_t offsets[] = {0, size, 2 * size};
  std::vector<std::byte> numbers(sizeof offsets);
  std::memcpy(numbers.data(), offsets, sizeof offsets);
  std::vector<dure::format::ArrowFile> files;
  files.push_back(fileOf({.name = "fuzz", .bytes = twice, .owner = nullptr}, numbers));
  auto split = dure::format::makeArrowSplit("fuzz", std::move(files), {});
  if (!split) return 0;
  dure::format::Source source;
  source.train = *std::move(split);
  dure::tests::trainOn(std::move(source), {.classes = 0});
  return 0;
}
