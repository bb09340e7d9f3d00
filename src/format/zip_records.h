#pragma once

#include <cstddef>
#include <cstdint>

// The records of a zip file, for who reads and who writes them.
namespace dure::format {

inline constexpr std::uint32_t kZipLocal = 0x04034b50;
inline constexpr std::uint32_t kZipCentral = 0x02014b50;
inline constexpr std::uint32_t kZipEnd = 0x06054b50;
inline constexpr std::uint32_t kZipEnd64 = 0x06064b50;
inline constexpr std::uint32_t kZipLocator = 0x07064b50;
inline constexpr std::uint32_t kZipDescriptor = 0x08074b50;
inline constexpr std::size_t kZipLocalSize = 30;
inline constexpr std::size_t kZipCentralSize = 46;
inline constexpr std::size_t kZipEndSize = 22;
inline constexpr std::size_t kZipEnd64Size = 56;
inline constexpr std::size_t kZipLocatorSize = 20;
// Where the checksum stands in both kinds of header.
inline constexpr std::size_t kZipLocalCrc = 14;
inline constexpr std::size_t kZipCentralCrc = 16;
inline constexpr std::uint32_t kZipElsewhere = 0xffffffff;  // "see the zip64 field"
inline constexpr std::uint16_t kZip64Field = 1;

}  // namespace dure::format
