#include "format/arrow_schema.h"

#include <fmt/core.h>

namespace dure::format {
namespace {

// The numbers that Arrow's Schema.fbs gives its types.
enum TypeNumber : std::uint8_t {
  kTypeNull = 1,
  kTypeInt = 2,
  kTypeFloatingPoint = 3,
  kTypeBinary = 4,
  kTypeUtf8 = 5,
  kTypeBool = 6,
  kTypeDecimal = 7,
  kTypeDate = 8,
  kTypeTime = 9,
  kTypeTimestamp = 10,
  kTypeInterval = 11,
  kTypeList = 12,
  kTypeStruct = 13,
  kTypeFixedSizeBinary = 15,
  kTypeFixedSizeList = 16,
  kTypeMap = 17,
  kTypeDuration = 18,
  kTypeLargeBinary = 19,
  kTypeLargeUtf8 = 20,
  kTypeLargeList = 21,
};

constexpr int kMaxDepth = 16;
// A hostile schema can say the same field again and again without being large.
constexpr int kMaxFields = 10'000;
constexpr std::size_t kMaxNames = 4u << 20u;  // bytes, of all fields

std::optional<DType> integerType(std::int32_t bits, bool is_signed) {
  switch (bits) {
    case 8:
      return is_signed ? DType::kI8 : DType::kU8;
    case 16:
      return is_signed ? DType::kI16 : DType::kU16;
    case 32:
      return is_signed ? DType::kI32 : DType::kU32;
    case 64:
      return is_signed ? DType::kI64 : DType::kU64;
    default:
      return std::nullopt;
  }
}

std::optional<DType> floatType(std::int16_t precision) {
  constexpr DType kTypes[] = {DType::kF16, DType::kF32, DType::kF64};
  if (precision < 0 || precision > 2) return std::nullopt;
  return kTypes[precision];
}

class SchemaReader {
 public:
  Result<ArrowField> read(const FlatTable& table, int depth) {
    ArrowField field{.name = std::string(table.text(0))};
    const auto refuse = [&](const std::string& what) {
      return Error(Code::kInvalid, fmt::format("column '{}' {}", field.name, what));
    };
    names_ += field.name.size();
    if (depth > kMaxDepth || ++fields_ > kMaxFields) return refuse("is nested too deep");
    if (names_ > kMaxNames) return Error(Code::kInvalid, "the columns' names are too long");
    if (table.table(4)) return refuse("is dictionary-encoded, which is not read");
    const auto number = table.number<std::uint8_t>(2, 0);
    if (!setType(number, table.table(3), field)) {
      return refuse(fmt::format("is of a type that is not read (Arrow's number {})", number));
    }
    const FlatVector children = table.vector(5, 4);
    for (std::uint32_t i = 0; i < children.size(); ++i) {
      auto child = read(children.table(i), depth + 1);
      if (!child) return std::move(child).error().during(field.name);
      field.children.push_back(*std::move(child));
    }
    const bool list = field.kind == ArrowKind::kList || field.kind == ArrowKind::kFixedList;
    if (list && field.children.size() != 1) return refuse("is a list of nothing");
    if (!list && field.kind != ArrowKind::kStruct && !field.children.empty()) {
      return refuse("has columns inside that it cannot have");
    }
    return field;
  }

 private:
  // False for what is not read.
  static bool setType(std::uint8_t number, const FlatTable& type, ArrowField& field) {
    std::optional<DType> dtype;
    switch (number) {
      case kTypeNull:
        field.kind = ArrowKind::kNull;
        return true;
      case kTypeInt:
      case kTypeFloatingPoint:
        field.kind = ArrowKind::kNumber;
        dtype = number == kTypeInt ? integerType(type.number<std::int32_t>(0, 0),
                                                 type.number<std::uint8_t>(1, 0) != 0)
                                   : floatType(type.number<std::int16_t>(0, 0));
        field.dtype = dtype.value_or(DType::kU8);
        return dtype.has_value();
      case kTypeBool:
        field.kind = ArrowKind::kBool;
        field.dtype = DType::kBool;
        return true;
      case kTypeBinary:
      case kTypeLargeBinary:
        field.kind = ArrowKind::kBinary;
        field.wide = number == kTypeLargeBinary;
        return true;
      case kTypeUtf8:
      case kTypeLargeUtf8:
        field.kind = ArrowKind::kText;
        field.wide = number == kTypeLargeUtf8;
        return true;
      case kTypeList:
      case kTypeLargeList:
      case kTypeMap:
        field.kind = ArrowKind::kList;
        field.wide = number == kTypeLargeList;
        return true;
      case kTypeFixedSizeList:
        field.kind = ArrowKind::kFixedList;
        field.list_size = type.number<std::int32_t>(0, 0);
        return field.list_size >= 0;
      case kTypeStruct:
        field.kind = ArrowKind::kStruct;
        return true;
      case kTypeDecimal:
      case kTypeDate:
      case kTypeTime:
      case kTypeTimestamp:
      case kTypeInterval:
      case kTypeFixedSizeBinary:
      case kTypeDuration:
        field.kind = ArrowKind::kFixedSize;
        return true;
      default:
        return false;
    }
  }

  int fields_ = 0;
  std::size_t names_ = 0;
};

}  // namespace

bool ArrowField::sameType(const ArrowField& other) const {
  if (kind != other.kind || dtype != other.dtype || wide != other.wide ||
      list_size != other.list_size || children.size() != other.children.size()) {
    return false;
  }
  for (std::size_t i = 0; i < children.size(); ++i) {
    if (!children[i].sameType(other.children[i])) return false;
  }
  return true;
}

std::string ArrowField::describe() const {
  switch (kind) {
    case ArrowKind::kNumber:
    case ArrowKind::kBool:
      return dtypeName(dtype);
    case ArrowKind::kBinary:
      return "bytes";
    case ArrowKind::kText:
      return "text";
    case ArrowKind::kList:
    case ArrowKind::kFixedList:
      return "a list of " + children[0].describe();
    case ArrowKind::kStruct:
      return "a struct";
    case ArrowKind::kNull:
    case ArrowKind::kFixedSize:
      break;
  }
  return "neither numbers nor images";
}

Result<ArrowSchema> readArrowSchema(const FlatTable& table) {
  if (table.number<std::int16_t>(0, 0) != 0) {
    return Error(Code::kInvalid, "the data is big-endian, which is not read");
  }
  ArrowSchema schema;
  SchemaReader reader;
  const FlatVector fields = table.vector(1, 4);
  for (std::uint32_t i = 0; i < fields.size(); ++i) {
    auto field = reader.read(fields.table(i), 0);
    if (!field) return std::move(field).error();
    schema.fields.push_back(*std::move(field));
  }
  const FlatVector metadata = table.vector(2, 4);
  for (std::uint32_t i = 0; i < metadata.size(); ++i) {
    const FlatTable pair = metadata.table(i);
    if (pair.text(0) == "huggingface") schema.huggingface = std::string(pair.text(1));
  }
  return schema;
}

}  // namespace dure::format
