// Any bytes are refused as an Arrow file, or are rows that can be read or are refused by number.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "format/arrow_split.h"

namespace {

// Images may be 25,000 times as large as their bytes: more than this says nothing new.
constexpr std::size_t kMostSample = 1u << 24u;
constexpr std::int64_t kMostRows = 1000;

void readAll(dure::ArrowFile file, const dure::DatasetOptions& options) {
  std::vector<dure::ArrowFile> files;
  files.push_back(std::move(file));
  const auto split = dure::makeArrowSplit("fuzz", std::move(files), options);
  if (!split) return;
  const auto bytes = dure::checkedBytes((*split)->sampleType(), (*split)->sampleShape());
  if (!bytes || *bytes > kMostSample) return;
  std::vector<std::byte> sample(*bytes);
  double label = 0;
  for (std::int64_t row = 0; row < std::min(kMostRows, (*split)->size()); ++row) {
    static_cast<void>((*split)->readSamples({&row, 1}, sample.data()));
    static_cast<void>((*split)->readLabels({&row, 1}, &label));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const dure::FileBytes bytes{
      .name = "fuzz", .bytes = {reinterpret_cast<const std::byte*>(data), size}, .owner = nullptr};
  auto file = dure::readArrow(bytes);
  if (!file) return 0;
  // Every column in turn is the samples, and the first that can be the labels.
  const dure::ArrowSchema schema = file->schema;
  for (const dure::ArrowField& samples : schema.fields) {
    for (const dure::ArrowField& labels : schema.fields) {
      if (labels.kind != dure::ArrowKind::kNumber) continue;
      readAll(*file, {.samples = samples.name, .labels = labels.name});
      break;
    }
  }
  return 0;
}
