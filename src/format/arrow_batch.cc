#include "format/arrow_batch.h"

#include <cstring>

#include <fmt/core.h>

namespace dure::format {
namespace {

constexpr std::size_t kStruct = 16;  // FieldNode and Buffer are two numbers of 8 bytes

// Hands out the nodes and buffers of a record batch in the order of the schema's columns.
class BatchReader {
 public:
  BatchReader(const FlatTable& batch, std::span<const std::byte> body)
      : nodes_(batch.vector(1, kStruct)), buffers_(batch.vector(2, kStruct)), body_(body) {}

  Result<ArrowColumn> read(const ArrowField& field) {
    if (node_ >= nodes_.size()) return bad("there are fewer columns than the schema says");
    ArrowColumn column{.length = nodes_.number<std::int64_t>(node_)};
    const auto nulls = nodes_.number<std::int64_t>(node_, 8);
    ++node_;
    // So that a length times the size of a number does not overflow.
    if (column.length < 0 || column.length > kMaxLength) return bad("a column's length is wrong");
    if (auto taken = takeBuffers(field, nulls != 0, column); !taken)
      return std::move(taken).error();
    for (const ArrowField& inside : field.children) {
      auto child = read(inside);
      if (!child) return child;
      column.children.push_back(*std::move(child));
    }
    if (auto checked = check(field, column); !checked) return std::move(checked).error();
    return column;
  }

 private:
  static constexpr std::int64_t kMaxLength = std::int64_t{1} << 48u;

  static Error bad(const std::string& what) { return Error(Code::kInvalid, what); }

  Result<std::span<const std::byte>> take() {
    if (buffer_ >= buffers_.size()) return bad("there are fewer buffers than the schema says");
    const auto offset = buffers_.number<std::uint64_t>(buffer_);
    const auto length = buffers_.number<std::uint64_t>(buffer_, 8);
    ++buffer_;
    if (offset > body_.size() || length > body_.size() - offset) {
      return bad(fmt::format("a buffer of {} bytes at {} does not fit a body of {}", length, offset,
                             body_.size()));
    }
    return body_.subspan(offset, length);
  }

  Status takeBuffers(const ArrowField& field, bool nulls, ArrowColumn& column) {
    if (field.kind == ArrowKind::kNull) return {};
    const auto validity = take();
    if (!validity) return validity.error();
    if (nulls) column.validity = *validity;
    const bool has_offsets = field.kind == ArrowKind::kList || field.kind == ArrowKind::kBinary ||
                             field.kind == ArrowKind::kText;
    if (has_offsets) {
      const auto offsets = take();
      if (!offsets) return offsets.error();
      column.offsets = *offsets;
    }
    const bool has_data = field.kind != ArrowKind::kList && field.kind != ArrowKind::kFixedList &&
                          field.kind != ArrowKind::kStruct;
    if (has_data) {
      const auto data = take();
      if (!data) return data.error();
      column.data = *data;
    }
    return {};
  }

  // The buffers are as long as the column's length makes them.
  static Status check(const ArrowField& field, const ArrowColumn& column) {
    const auto length = static_cast<std::size_t>(column.length);
    const std::size_t bits = (length + 7) / 8;
    if (!column.validity.empty() && column.validity.size() < bits) {
      return bad("the bits that mark nulls are too few");
    }
    bool fits = true;
    switch (field.kind) {
      case ArrowKind::kNumber:
        fits = column.data.size() >= length * sizeOf(field.dtype);
        break;
      case ArrowKind::kBool:
        fits = column.data.size() >= bits;
        break;
      case ArrowKind::kBinary:
      case ArrowKind::kText:
      case ArrowKind::kList:
        fits = length == 0 || column.offsets.size() >= (length + 1) * (field.wide ? 8u : 4u);
        break;
      case ArrowKind::kFixedList:
        fits = field.list_size == 0 || column.length <= column.children[0].length / field.list_size;
        break;
      case ArrowKind::kStruct:
        for (const ArrowColumn& child : column.children) {
          fits = fits && child.length >= column.length;
        }
        break;
      case ArrowKind::kNull:
      case ArrowKind::kFixedSize:
        break;
    }
    if (!fits) return bad(fmt::format("'{}' has less data than {} values", field.name, length));
    return {};
  }

  const FlatVector nodes_;
  const FlatVector buffers_;
  const std::span<const std::byte> body_;
  std::uint32_t node_ = 0;
  std::uint32_t buffer_ = 0;
};

}  // namespace

bool ArrowColumn::isNull(std::int64_t index) const {
  if (validity.empty()) return false;
  const auto byte = std::to_integer<unsigned>(validity[static_cast<std::size_t>(index / 8)]);
  return ((byte >> (index % 8)) & 1u) == 0;
}

bool ArrowColumn::bit(std::int64_t index) const {
  const auto byte = std::to_integer<unsigned>(data[static_cast<std::size_t>(index / 8)]);
  return ((byte >> (index % 8)) & 1u) != 0;
}

Result<ArrowRange> rangeAt(const ArrowField& field, const ArrowColumn& column, std::int64_t index) {
  if (field.kind == ArrowKind::kFixedList) {
    return ArrowRange{index * field.list_size, (index + 1) * field.list_size};
  }
  const auto at = [&](std::int64_t number) {
    const DType type = field.wide ? DType::kI64 : DType::kI32;
    const std::byte* const from =
        column.offsets.data() + static_cast<std::size_t>(number) * sizeOf(type);
    std::int64_t wide = 0;
    std::int32_t narrow = 0;
    if (field.wide) {
      std::memcpy(&wide, from, sizeof wide);
      return wide;
    }
    std::memcpy(&narrow, from, sizeof narrow);
    return std::int64_t{narrow};
  };
  const ArrowRange range{at(index), at(index + 1)};
  const std::int64_t most = field.kind == ArrowKind::kList
                                ? column.children[0].length
                                : static_cast<std::int64_t>(column.data.size());
  if (range.begin < 0 || range.begin > range.end || range.end > most) {
    return Error(Code::kInvalid,
                 fmt::format("its offsets, {} to {}, are not within the {} there are", range.begin,
                             range.end, most));
  }
  return range;
}

Result<ArrowBatch> readArrowBatch(const ArrowSchema& schema, const FlatTable& table,
                                  std::span<const std::byte> body) {
  if (table.table(3)) {
    return Error(Code::kInvalid, "the data is compressed, which is not read; save it uncompressed");
  }
  ArrowBatch batch{.rows = table.number<std::int64_t>(0, 0)};
  BatchReader reader(table, body);
  for (const ArrowField& field : schema.fields) {
    auto column = reader.read(field);
    if (!column) return std::move(column).error().during("column '" + field.name + "'");
    if (column->length != batch.rows) {
      return Error(Code::kInvalid, fmt::format("column '{}' has {} rows but the batch has {}",
                                               field.name, column->length, batch.rows));
    }
    batch.columns.push_back(*std::move(column));
  }
  return batch;
}

}  // namespace dure::format
