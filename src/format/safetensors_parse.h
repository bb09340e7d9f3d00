#pragma once

#include <functional>
#include <optional>
#include <string_view>

#include "base/result.h"
#include "format/mapped_file.h"
#include "format/safetensors.h"

namespace dure::format {

// readSafetensors for bytes that are already there.
Result<Safetensors> parseSafetensors(const FileBytes& file);

// Where the arrays of a .safetensors file lie, without a look at their numbers.
struct PlacedArray {
  std::string name;
  DType dtype = DType::kU8;
  std::vector<std::int64_t> shape;
  std::size_t offset = 0;  // in the file
};
struct PlacedArrays {
  std::vector<PlacedArray> arrays;  // in the order of their places
  std::map<std::string, std::string> metadata;
};
Result<PlacedArrays> placeSafetensors(const FileBytes& file);

// The file's header with these texts in its metadata, or without them where they are nothing, and
// where the old header ends.
Result<std::pair<std::string, std::size_t>> changedHeader(
    const FileBytes& file, const std::map<std::string, std::optional<std::string>>& changes);

// writeSafetensors to an open file, which is left as it is if that fails.
Status writeSafetensorsTo(int fd, const Safetensors& content);
// The bytes of the file, piece by piece, until `write` fails.
Status writeSafetensorsTo(const std::function<Status(std::string_view)>& write,
                          const Safetensors& content);

}  // namespace dure::format
