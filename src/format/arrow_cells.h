#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "format/arrow_file.h"

namespace dure::format {

// What a column's cells are as samples: numbers, lists of numbers (of lists …), or PNG images, as
// bytes or as struct<bytes, path>. Invalid for other columns.
struct CellType {
  DType dtype = DType::kU8;
  std::vector<std::int64_t> shape;  // of the cell it was taken from
};
Result<CellType> cellType(const ArrowField& field, const ArrowColumn& column, std::int64_t index);

// The cell, which must be of that type, to `out`. Nulls are refused.
Status readCell(const ArrowField& field, const ArrowColumn& column, std::int64_t index,
                const CellType& type, std::byte* out);

// A label: a number, not null.
bool isLabelColumn(const ArrowField& field);
Result<double> readLabel(const ArrowField& field, const ArrowColumn& column, std::int64_t index);

}  // namespace dure::format
