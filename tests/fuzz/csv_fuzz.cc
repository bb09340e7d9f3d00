// Any text is refused as a .csv file, or is a data set whose rows can be read or are refused by
// line; as many labels are read as there are rows, and a class has one of the names.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <utility>

#include "batches.h"
#include "format/csv_dataset.h"

namespace {

void require(bool holds, const char* what) {
  if (holds) return;
  std::cerr << "broken: " << what << "\n";
  std::abort();
}

void readAll(dure::format::Source source) {
  const double classes = static_cast<double>(source.class_names.size());
  for (const dure::format::SourceSplit* split : {source.train.get(), source.test.get()}) {
    for (std::int64_t row = 0; split != nullptr && row < split->size(); ++row) {
      double label = -1;
      if (split->readLabels({&row, 1}, &label) && classes > 0)
        require(label >= 0 && label < classes, "a class has a name");
      require(!split->rowName(row).empty(), "a row has a name");
    }
  }
  dure::tests::trainOn(std::move(source));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // One half trains, the other tests.
  const auto* const bytes = reinterpret_cast<const std::byte*>(data);
  const dure::format::FileBytes train{
      .name = "train", .bytes = {bytes, size / 2}, .owner = nullptr};
  const dure::format::FileBytes test{
      .name = "test", .bytes = {bytes + size / 2, size - size / 2}, .owner = nullptr};
  const dure::format::FileBytes whole{.name = "whole", .bytes = {bytes, size}, .owner = nullptr};
  if (auto source = dure::format::openCsvFiles(train, &test, {}); source)
    readAll(*std::move(source));
  if (auto source = dure::format::openCsvFiles(whole, nullptr, {.labels = "1"}); source)
    readAll(*std::move(source));
  return 0;
}
