#include "format/arrow_cells.h"

#include <cstring>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "format/png_image.h"

namespace dure::format {
namespace {

Error bad(const std::string& what) { return Error(Code::kInvalid, what); }

Error isNullError() { return bad("is null"); }

bool isList(const ArrowField& field) {
  return field.kind == ArrowKind::kList || field.kind == ArrowKind::kFixedList;
}

bool isNumber(const ArrowField& field) {
  return field.kind == ArrowKind::kNumber || field.kind == ArrowKind::kBool;
}

// Where the image is among the columns of struct<bytes, path>; the number of them if nowhere.
std::size_t bytesChild(const ArrowField& field) {
  std::size_t i = 0;
  while (i < field.children.size() &&
         (field.children[i].name != "bytes" || field.children[i].kind != ArrowKind::kBinary)) {
    ++i;
  }
  return i;
}

bool isImage(const ArrowField& field) {
  return field.kind == ArrowKind::kBinary ||
         (field.kind == ArrowKind::kStruct && bytesChild(field) < field.children.size());
}

Result<std::span<const std::byte>> imageBytes(const ArrowField& field, const ArrowColumn& column,
                                              std::int64_t index) {
  if (column.isNull(index)) return isNullError();
  if (field.kind == ArrowKind::kStruct) {
    const std::size_t child = bytesChild(field);
    if (column.children[child].isNull(index)) {
      return bad("has no bytes: the image is not stored in the file");
    }
    return imageBytes(field.children[child], column.children[child], index);
  }
  const auto range = rangeAt(field, column, index);
  if (!range) return range.error();
  return column.data.subspan(static_cast<std::size_t>(range->begin),
                             static_cast<std::size_t>(range->end - range->begin));
}

// Values [begin, end) of a column of numbers.
Status copyNumbers(const ArrowField& field, const ArrowColumn& column, ArrowRange range,
                   std::byte*& out) {
  if (!column.validity.empty()) {
    for (std::int64_t i = range.begin; i < range.end; ++i) {
      if (column.isNull(i)) return bad("holds a null");
    }
  }
  if (field.kind == ArrowKind::kBool) {
    for (std::int64_t i = range.begin; i < range.end; ++i) *out++ = std::byte{column.bit(i)};
    return {};
  }
  const std::size_t size = sizeOf(field.dtype);
  const std::size_t bytes = static_cast<std::size_t>(range.end - range.begin) * size;
  if (bytes > 0) {
    std::memcpy(out, column.data.data() + static_cast<std::size_t>(range.begin) * size, bytes);
  }
  out += bytes;
  return {};
}

Status copyList(const ArrowField& field, const ArrowColumn& column, std::int64_t index,
                std::span<const std::int64_t> shape, std::byte*& out) {
  if (column.isNull(index)) return isNullError();
  const auto range = rangeAt(field, column, index);
  if (!range) return range.error();
  if (range->end - range->begin != shape[0]) {
    return bad(fmt::format("has {} values where the first row has {}", range->end - range->begin,
                           shape[0]));
  }
  const ArrowField& inside = field.children[0];
  const ArrowColumn& values = column.children[0];
  if (!isList(inside)) return copyNumbers(inside, values, *range, out);
  for (std::int64_t i = range->begin; i < range->end; ++i) {
    if (auto copied = copyList(inside, values, i, shape.subspan(1), out); !copied) return copied;
  }
  return {};
}

}  // namespace

Result<CellType> cellType(const ArrowField& field, const ArrowColumn& column, std::int64_t index) {
  if (isImage(field)) {
    const auto bytes = imageBytes(field, column, index);
    if (!bytes) return bytes.error();
    auto shape = pngShape(*bytes);
    if (!shape) return std::move(shape).error();
    return CellType{.dtype = DType::kU8, .shape = *std::move(shape)};
  }
  if (isNumber(field)) return CellType{.dtype = field.dtype, .shape = {1}};
  CellType type;
  const ArrowField* inside = &field;
  const ArrowColumn* values = &column;
  while (isList(*inside)) {
    if (values->isNull(index)) return isNullError();
    const auto range = rangeAt(*inside, *values, index);
    if (!range) return range.error();
    if (range->begin == range->end) return bad("is an empty list");
    type.shape.push_back(range->end - range->begin);
    index = range->begin;
    values = &values->children[0];
    inside = &inside->children[0];
  }
  if (!isNumber(*inside)) return bad("is " + field.describe() + ", not numbers or an image");
  type.dtype = inside->dtype;
  return type;
}

Status readCell(const ArrowField& field, const ArrowColumn& column, std::int64_t index,
                const CellType& type, std::byte* out) {
  if (isNumber(field)) return copyNumbers(field, column, {index, index + 1}, out);
  if (isList(field)) return copyList(field, column, index, type.shape, out);
  const auto bytes = imageBytes(field, column, index);
  if (!bytes) return bytes.error();
  const auto shape = pngShape(*bytes);
  if (!shape) return shape.error();
  if (*shape != type.shape) {
    return bad(fmt::format("is an image of shape ({}) where the first row's is ({})",
                           fmt::join(*shape, ", "), fmt::join(type.shape, ", ")));
  }
  return decodePng(*bytes, type.shape, out);
}

bool isLabelColumn(const ArrowField& field) { return isNumber(field); }

Result<double> readLabel(const ArrowField& field, const ArrowColumn& column, std::int64_t index) {
  if (column.isNull(index)) return isNullError();
  if (field.kind == ArrowKind::kBool) return column.bit(index) ? 1.0 : 0.0;
  return numberAt(field.dtype,
                  column.data.data() + static_cast<std::size_t>(index) * sizeOf(field.dtype));
}

}  // namespace dure::format
