// Any bytes are refused as an Arrow file, or are a data set whose batches can be made or are
// refused by row.

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "batches.h"
#include "format/arrow_split.h"

namespace {

void readAll(dure::format::ArrowFile file, const dure::format::DatasetOptions& options) {
  std::vector<dure::format::ArrowFile> files;
  files.push_back(std::move(file));
  auto split = dure::format::makeArrowSplit("fuzz", std::move(files), options);
  if (!split) return;
  dure::format::Source source;
  source.train = *std::move(split);
  dure::tests::trainOn(std::move(source), options);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const dure::format::FileBytes bytes{
      .name = "fuzz", .bytes = {reinterpret_cast<const std::byte*>(data), size}, .owner = nullptr};
  auto file = dure::format::readArrow(bytes);
  if (!file) return 0;
  // Every column in turn is the samples, and the first that can be the labels.
  const dure::format::ArrowSchema schema = file->schema;
  for (const dure::format::ArrowField& samples : schema.fields) {
    for (const dure::format::ArrowField& labels : schema.fields) {
      if (labels.kind != dure::format::ArrowKind::kNumber) continue;
      for (const std::int64_t classes : {-1, 0}) {
        readAll(*file, {.samples = samples.name, .labels = labels.name, .classes = classes});
      }
      break;
    }
  }
  return 0;
}
