#pragma once

#include <cstddef>
#include <cstdint>

namespace dure::collective {

// What the bytes of a reduction are.
enum class Number : std::uint8_t {
  kFloat32,
  kFloat64,
  kFloat16,
  kBFloat16,
  kInt8,
  kUInt8,
  kInt16,
  kInt32,
  kInt64,
};

enum class Reduction : std::uint8_t { kSum, kProduct, kMin, kMax };

constexpr std::size_t sizeOf(Number number) {
  switch (number) {
    case Number::kInt8:
    case Number::kUInt8:
      return 1;
    case Number::kFloat16:
    case Number::kBFloat16:
    case Number::kInt16:
      return 2;
    case Number::kFloat32:
    case Number::kInt32:
      return 4;
    case Number::kFloat64:
    case Number::kInt64:
      return 8;
  }
  return 1;
}

}  // namespace dure::collective
