#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "format/arrow_schema.h"
#include "format/flatbuffer.h"

namespace dure::format {

// One column of one batch: views of the file. Their sizes fit `length`; what the offsets say is
// checked when they are used.
struct ArrowColumn {
  std::int64_t length = 0;
  std::span<const std::byte> validity;  // a bit per value, 0 for null; empty: no nulls
  std::span<const std::byte> offsets;   // of lists, bytes and texts
  std::span<const std::byte> data;
  std::vector<ArrowColumn> children;

  bool isNull(std::int64_t index) const;
  bool bit(std::int64_t index) const;  // of kBool
};

struct ArrowRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

// Where the list, bytes or text at `index` (below the column's length) lies in the child or the
// data. Invalid if the offsets lead out of it.
Result<ArrowRange> rangeAt(const ArrowField& field, const ArrowColumn& column, std::int64_t index);

struct ArrowBatch {
  std::int64_t rows = 0;
  std::size_t offset = 0;            // of its message in the file
  std::vector<ArrowColumn> columns;  // as in the schema
};

// From the RecordBatch table of a message and the message's body. Compressed bodies are refused.
Result<ArrowBatch> readArrowBatch(const ArrowSchema& schema, const FlatTable& table,
                                  std::span<const std::byte> body);

}  // namespace dure::format
