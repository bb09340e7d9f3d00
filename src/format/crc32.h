#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace dure::format {

// The CRC-32 of zip files, over what was summed so far (0 for nothing) and these bytes. As zlib's
// crc32, several times as fast on processors that multiply polynomials.
std::uint32_t crc32Of(std::span<const std::byte> bytes, std::uint32_t sum = 0);

// The sum of two texts one after the other, from those of both and the size of the second.
std::uint32_t joinCrc32(std::uint32_t first, std::uint32_t second, std::uint64_t second_size);

}  // namespace dure::format
