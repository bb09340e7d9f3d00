#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "format/array.h"
#include "format/flatbuffer.h"

namespace dure::format {

enum class ArrowKind {
  kNull,
  kNumber,     // ArrowField::dtype
  kBool,       // a bit each
  kBinary,     // bytes
  kText,       // bytes, too
  kList,       // any number of the only child each
  kFixedList,  // ArrowField::list_size of the only child each
  kStruct,     // one of each child
  kFixedSize,  // dates, decimals and the like: skipped, never read
};

// A column, or what is inside one.
struct ArrowField {
  std::string name;
  ArrowKind kind = ArrowKind::kNull;
  DType dtype = DType::kU8;
  bool wide = false;  // offsets have 64 bits: LargeList, LargeBinary, LargeUtf8
  std::int64_t list_size = 0;
  std::vector<ArrowField> children;

  // The same columns in the same order, whatever they are called.
  bool sameType(const ArrowField& other) const;
  // For people: "a list of float32".
  std::string describe() const;
};

struct ArrowSchema {
  std::vector<ArrowField> fields;
  std::string huggingface;  // what the library `datasets` adds: JSON, or nothing
};

// From the Schema table of a message. Refused: big-endian data, dictionaries, unions, run-end
// encoded columns and views.
Result<ArrowSchema> readArrowSchema(const FlatTable& table);

}  // namespace dure::format
