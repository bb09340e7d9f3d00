#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "format/array.h"

namespace dure::format {

using NamedArrays = std::vector<std::pair<std::string, Array>>;

// A .safetensors file: arrays by name, and texts by name.
struct Safetensors {
  NamedArrays arrays;  // in the order of their place in the file
  std::map<std::string, std::string> metadata;

  const Array* find(const std::string& name) const;
};

// Maps the file; the arrays are views of it, or copies where they do not lie at a multiple of their
// numbers' size. Everything the header says is checked first.
Result<Safetensors> readSafetensors(const std::string& path);

// Writes all of it or none (atomic rename). The data begins at a multiple of 64. The format allows
// no holes, so the arrays with the widest numbers come first, in their order: each then begins at a
// multiple of its numbers' size.
Status writeSafetensors(const std::string& path, const Safetensors& content);

}  // namespace dure::format
