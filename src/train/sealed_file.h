#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "base/result.h"

// Files that tell whether they are as they were written.
namespace dure::train {

// Whether reading failed because of what is there, or is not there. Any other failure says nothing
// about the file: the disk, the network or somebody's rights are in the way, perhaps for a moment.
bool isDamage(const Error& error);

struct Seal {
  std::uint64_t bytes = 0;
  std::uint32_t checksum = 0;
  bool operator==(const Seal&) const = default;
};

// Of the bytes that lie there now.
Result<Seal> readSeal(const std::string& path);

using Sink = std::function<Status(std::string_view bytes)>;
// Creates the file from what `content` gives to its sink and syncs it. The seal is that of the
// bytes given, and what is read back has it: Io if not, Exists if there is such a file.
Result<Seal> writeSealed(const std::string& path,
                         const std::function<Status(const Sink& sink)>& content);

// {"NAME": content, "checksum": …}
std::string withChecksum(const char* name, const nlohmann::json& content, int indent);
// Its content. Invalid if that is not what was written.
Result<nlohmann::json> readWithChecksum(const char* name, const std::string& path);

}  // namespace dure::train
