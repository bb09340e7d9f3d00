#pragma once

// What a worker does with a data set, without the arithmetic: the same buffers, filled the same
// way.

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "format/batch_rows.h"
#include "format/dataset_source.h"

namespace dure::tests {

inline void readBatches(const format::Split& split) {
  constexpr std::int64_t kBatch = 32;
  constexpr std::int64_t kMostRows = 1000;
  constexpr std::int64_t kUnknown = 2;
  const bool words = !format::isFloat(split.sampleType());
  if (words) static_cast<void>(format::scanWords(split));
  for (std::int64_t first = 0; first < std::min(kMostRows, split.size()); first += kBatch) {
    std::vector<std::int64_t> rows(
        static_cast<std::size_t>(std::min(kBatch, split.size() - first)));
    std::iota(rows.rbegin(), rows.rend(), first);
    const auto batch = format::readRows(split, rows);
    if (!batch) continue;
    std::vector<float> floats(rows.size() * static_cast<std::size_t>(split.sampleElements()));
    static_cast<void>(
        format::toFloats(split, rows, *batch, {.factor = 2, .offset = 1}, floats.data()));
    if (!words) continue;
    std::vector<std::int64_t> numbers(floats.size());
    format::toWords(*batch, kUnknown + 1, kUnknown, numbers.data());
  }
}

inline void trainOn(format::Source source, const format::DatasetOptions& options = {}) {
  const auto dataset = format::makeDataset(std::move(source), "fuzz", options);
  if (!dataset) return;
  readBatches(*dataset->train);
  if (dataset->test) readBatches(*dataset->test);
}

}  // namespace dure::tests
