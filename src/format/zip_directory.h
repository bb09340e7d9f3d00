#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "format/mapped_file.h"

namespace dure::format {

// One file inside a zip file.
struct ZipMember {
  std::string name;
  bool deflated = false;  // else stored as it is
  std::uint32_t crc = 0;
  std::uint64_t size = 0;         // unpacked
  std::uint64_t packed_size = 0;  // as it lies in the file
  std::uint64_t header_offset = 0;
  std::uint64_t entry_offset = 0;  // in the directory
};

// The members of a zip file, read here and not by a library because a library does not tell where a
// member's bytes lie, and arrays are viewed where they lie. Zip64 as well. Encrypted members,
// other ways of packing than deflate, and doubled names are refused.
Result<std::vector<ZipMember>> readZipDirectory(const FileBytes& file);

// Where in the file a member's checksum stands, twice: before or behind its bytes, and in the
// directory.
Result<std::array<std::uint64_t, 2>> checksumPlaces(const FileBytes& file, const ZipMember& member);

// The member's entry in the directory as it stands there.
Result<std::string_view> entryBytes(const FileBytes& file, const ZipMember& member);

// The member's bytes as they lie in the file.
Result<FileBytes> packedBytes(const FileBytes& file, const ZipMember& member);

}  // namespace dure::format
