#pragma once

#include <bit>
#include <cstdint>

// The 16-bit floating-point numbers, as bits. Written without branches, so that loops over them are
// vectorised; and in plain integers, so that they are the same on every processor. Rounding is to
// the nearest, ties to even; infinities and NaN stay what they are.
namespace dure::collective {

inline float fromBFloat16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

inline std::uint16_t toBFloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = bits + 0x7FFF + ((bits >> 16) & 1);
  const bool nan = (bits & 0x7FFFFFFF) > 0x7F800000;
  return static_cast<std::uint16_t>((nan ? bits | 0x00400000 : rounded) >> 16);
}

inline float fromFloat16(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000) << 16;
  const std::uint32_t rest = static_cast<std::uint32_t>(half & 0x7FFF) << 13;
  const std::uint32_t normal = rest + 0x38000000;
  const std::uint32_t special = rest | 0x7F800000;
  // A subnormal: put after 2^-14 as its fraction, and 2^-14 taken off again.
  const auto subnormal =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(rest + 0x38800000) - 0x1p-14F);
  const std::uint32_t magnitude = rest >= 0x0F800000   ? special
                                  : rest >= 0x00800000 ? normal
                                                       : subnormal;
  return std::bit_cast<float>(sign | magnitude);
}

inline std::uint16_t toFloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000;
  const std::uint32_t magnitude = bits & 0x7FFFFFFF;
  const std::uint32_t normal = (magnitude - 0x38000000 + 0xFFF + ((magnitude >> 13) & 1)) >> 13;
  // Below 2^-14 the sum with 0.5 has the result in its lowest bits, rounded by the addition.
  const std::uint32_t subnormal =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - 0x3F000000;
  const std::uint32_t special = magnitude > 0x7F800000 ? 0x7E00 : 0x7C00;
  const std::uint32_t result = magnitude >= 0x477FF000   ? special
                               : magnitude >= 0x38800000 ? normal
                                                         : subnormal;
  return static_cast<std::uint16_t>(sign | result);
}

}  // namespace dure::collective
