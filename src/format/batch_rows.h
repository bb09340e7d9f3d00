#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "format/dataset.h"

namespace dure::format {

// What is done to numbers before a model gets them: number × factor + offset.
struct Scaling {
  float factor = 1;
  float offset = 0;

  bool operator==(const Scaling& other) const = default;
};

// Some rows of a split as its files have them. Everything that trains, scans or tests a data set
// reads rows this way.
struct BatchRows {
  DType type = DType::kU8;
  std::vector<std::byte> samples;  // of all rows, one after the other
  std::vector<double> labels;

  std::size_t elements() const { return samples.size() / sizeOf(type); }
};

Result<BatchRows> readRows(const Split& split, std::span<const std::int64_t> rows);

// The samples as float32, scaled, into `out`, which has room for elements() of them. Invalid,
// naming the row and the index in the sample, if a number in the file is NaN, infinite, or beyond
// float32.
Status toFloats(const Split& split, std::span<const std::int64_t> rows, const BatchRows& batch,
                Scaling scaling, float* out);

// The samples as numbers of words below `vocabulary`, into `out`; others become `unknown`.
void toWords(const BatchRows& batch, std::int64_t vocabulary, std::int64_t unknown,
             std::int64_t* out);

// The smallest and the largest word of a split, with the first row that has it.
struct WordRange {
  std::int64_t least = 0;
  std::int64_t most = -1;
  std::int64_t least_row = 0;
  std::int64_t most_row = 0;
};
Result<WordRange> scanWords(const Split& split);

}  // namespace dure::format
