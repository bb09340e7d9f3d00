// Any text is refused as a .csv file, or is a data set whose rows can be read or are refused by
// line; as many labels are read as there are rows, and a class has one of the names.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <vector>

#include "format/csv_dataset.h"

namespace {

void require(bool holds, const char* what) {
  if (holds) return;
  std::cerr << "broken: " << what << "\n";
  std::abort();
}

void readAll(const dure::SourceSplit& split, std::size_t classes) {
  std::vector<float> sample(static_cast<std::size_t>(split.sampleShape()[0]));
  for (std::int64_t row = 0; row < split.size(); ++row) {
    static_cast<void>(split.readSamples({&row, 1}, reinterpret_cast<std::byte*>(sample.data())));
    double label = -1;
    if (split.readLabels({&row, 1}, &label) && classes > 0) {
      require(label >= 0 && label < static_cast<double>(classes), "a class has a name");
    }
    require(!split.rowName(row).empty(), "a row has a name");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // One half trains, the other tests.
  const auto* const bytes = reinterpret_cast<const std::byte*>(data);
  const dure::FileBytes train{.name = "train", .bytes = {bytes, size / 2}, .owner = nullptr};
  const dure::FileBytes test{
      .name = "test", .bytes = {bytes + size / 2, size - size / 2}, .owner = nullptr};
  const dure::FileBytes whole{.name = "whole", .bytes = {bytes, size}, .owner = nullptr};
  if (const auto source = dure::openCsvFiles(train, &test, {}); source) {
    readAll(*source->train, source->class_names.size());
    readAll(*source->test, source->class_names.size());
  }
  if (const auto source = dure::openCsvFiles(whole, nullptr, {.labels = "1"}); source) {
    readAll(*source->train, source->class_names.size());
  }
  return 0;
}
