#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "format/array.h"

namespace dure::format {

// Half of a float: the first 16 bits of one.
struct BFloat16 {
  std::uint16_t bits;
  explicit operator float() const { return std::bit_cast<float>(std::uint32_t{bits} << 16u); }
  explicit operator std::int64_t() const { return static_cast<std::int64_t>(float(*this)); }
};

// IEEE 754's binary16.
struct Half {
  std::uint16_t bits;
  explicit operator float() const {
    const std::uint32_t sign = (bits & 0x8000u) << 16u;
    const std::uint32_t rest = bits & 0x7fffu;
    if (rest >= 0x7c00u) return std::bit_cast<float>(sign | 0x7f800000u | (rest & 0x3ffu) << 13u);
    // The exponent's bias is 112 smaller; a product gets subnormal numbers right, too.
    const float value = std::bit_cast<float>(rest << 13u) * 0x1p112f;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(value));
  }
  explicit operator std::int64_t() const { return static_cast<std::int64_t>(float(*this)); }
};

// Calls `use` with the numbers of `bytes`, which must lie at a multiple of their size, as what they
// are.
template <typename Use>
void withNumbers(DType type, const std::byte* bytes, Use use) {
  switch (type) {
    case DType::kBool:
    case DType::kU8:
      return use(reinterpret_cast<const std::uint8_t*>(bytes));
    case DType::kI8:
      return use(reinterpret_cast<const std::int8_t*>(bytes));
    case DType::kU16:
      return use(reinterpret_cast<const std::uint16_t*>(bytes));
    case DType::kI16:
      return use(reinterpret_cast<const std::int16_t*>(bytes));
    case DType::kU32:
      return use(reinterpret_cast<const std::uint32_t*>(bytes));
    case DType::kI32:
      return use(reinterpret_cast<const std::int32_t*>(bytes));
    case DType::kU64:
      return use(reinterpret_cast<const std::uint64_t*>(bytes));
    case DType::kI64:
      return use(reinterpret_cast<const std::int64_t*>(bytes));
    case DType::kF16:
      return use(reinterpret_cast<const Half*>(bytes));
    case DType::kBF16:
      return use(reinterpret_cast<const BFloat16*>(bytes));
    case DType::kF32:
      return use(reinterpret_cast<const float*>(bytes));
    case DType::kF64:
      return use(reinterpret_cast<const double*>(bytes));
  }
}

}  // namespace dure::format
