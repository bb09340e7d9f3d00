#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "format/mapped_file.h"

namespace dure::format {

// One value of a pickle. Nothing is ever called or imported: what a program would call stands there
// as a name with arguments.
struct PickleValue {
  enum class Kind {
    kNone,
    kBool,    // number
    kInt,     // number
    kFloat,   // not kept
    kText,    // text
    kGlobal,  // text: "torch FloatStorage"
    kList,    // items; tuples as well
    kDict,    // items: key, value, key, value, …
    kCall,    // items: what is called, arguments
    kObject,  // items: class, and its state, once it has one
    kStored,  // items: what names something that lies elsewhere
  };
  Kind kind = Kind::kNone;
  std::int64_t number = 0;
  std::string text;
  std::vector<std::size_t> items;  // numbers of values
};

using PickleKind = PickleValue::Kind;

// All values of a pickle by their numbers. An object may hold itself, and many may hold one: who
// walks through them counts the steps.
struct Pickle {
  std::vector<PickleValue> values;
  std::size_t top = 0;

  const PickleValue& at(std::size_t number) const { return values[number]; }
  // The value of a dictionary under a text; null if there is none.
  const PickleValue* find(const PickleValue& dict, const std::string& key) const;
};

// The instructions that TorchScript writes (protocol 2). Invalid, with the offset, for others.
Result<Pickle> readPickle(const FileBytes& file);

}  // namespace dure::format
