#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

// The one definition of a tar archive's headers, for the packer and the unpacker of folders.
namespace dure::bundle {

inline constexpr std::size_t kTarBlock = 512;
// What is read, written or compressed at a time.
inline constexpr std::size_t kPiece = 256 << 10;

struct TarEntry {
  enum class Kind : char {
    kFile = '0',
    kLink = '2',  // symbolic
    kDirectory = '5',
    kPax = 'x',        // says more of the next entry
    kPaxGlobal = 'g',  // says something of the whole archive
  };
  Kind kind = Kind::kFile;
  std::string path;  // with slashes, without one at either end
  std::string target;
  std::int64_t size = 0;
  bool executable = false;
};

// The header, with a pax header before it if the entry does not fit without.
std::string encodeTarEntry(const TarEntry& entry);
// What follows a file of this size up to the next block.
std::string tarPadding(std::int64_t size);
// The end of an archive.
std::string tarEnd();

// Of one block. Invalid if it is none that we understand.
Result<TarEntry> decodeTarHeader(std::string_view block);
// Puts what a pax header says into the entry that follows it.
Status applyPax(std::string_view records, TarEntry& entry);

}  // namespace dure::bundle
