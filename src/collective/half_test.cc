#include "collective/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace dure::collective {
namespace {

// The same number by arithmetic instead of bits.
double valueOf(std::uint32_t bits, int exponent_bits, int fraction_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const auto fraction = static_cast<double>(bits & ((1u << fraction_bits) - 1));
  const int exponent = static_cast<int>(bits >> fraction_bits) & ((1 << exponent_bits) - 1);
  const double sign = (bits >> (exponent_bits + fraction_bits)) & 1 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) {
    return fraction != 0 ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  }
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
  return sign * std::ldexp(1 + std::ldexp(fraction, -fraction_bits), exponent - bias);
}

TEST(Half, EveryOneHasItsValueAndComesBack) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const double as_float16 = valueOf(bits, 5, 10);
    const double as_bfloat16 = valueOf(bits, 8, 7);
    if (std::isnan(as_float16)) {
      EXPECT_TRUE(std::isnan(fromFloat16(half)));
      EXPECT_TRUE(std::isnan(fromFloat16(toFloat16(fromFloat16(half)))));
    } else {
      ASSERT_EQ(fromFloat16(half), as_float16) << bits;
      ASSERT_EQ(toFloat16(fromFloat16(half)), half) << bits;
    }
    if (std::isnan(as_bfloat16)) {
      EXPECT_TRUE(std::isnan(fromBFloat16(toBFloat16(fromBFloat16(half)))));
    } else {
      ASSERT_EQ(fromBFloat16(half), as_bfloat16) << bits;
      ASSERT_EQ(toBFloat16(fromBFloat16(half)), half) << bits;
    }
  }
}

// Checks a rounding against its two neighbours, among all positive halves up to `largest`.
template <typename To, typename From>
void expectNearest(float value, std::uint16_t largest, To to, From from) {
  const std::uint16_t half = to(value);
  ASSERT_LE(half, largest) << value;
  const double error = std::abs(static_cast<double>(from(half)) - value);
  for (const int neighbour : {half - 1, half + 1}) {
    if (neighbour < 0 || neighbour > largest) continue;
    const double other =
        std::abs(static_cast<double>(from(static_cast<std::uint16_t>(neighbour))) - value);
    ASSERT_TRUE(error < other || (error == other && half % 2 == 0)) << value;
  }
}

TEST(Half, RoundsToTheNearestAndTiesToEven) {
  std::mt19937 random(7);
  std::uniform_real_distribution<float> exponent(-26.0F, 15.99F);
  for (int i = 0; i < 200'000; ++i) {
    const float value = std::exp2(exponent(random));
    expectNearest(value, 0x7BFF, toFloat16, fromFloat16);
    expectNearest(value, 0x7F7F, toBFloat16, fromBFloat16);
  }
  for (std::uint16_t half = 0; half < 0x7BFF; ++half) {
    const float tie = (fromFloat16(half) + fromFloat16(static_cast<std::uint16_t>(half + 1))) / 2;
    ASSERT_EQ(toFloat16(tie), half % 2 == 0 ? half : half + 1);
    ASSERT_EQ(toFloat16(-tie), 0x8000 | (half % 2 == 0 ? half : half + 1));
  }
}

TEST(Half, TooLargeBecomesInfinite) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(fromFloat16(toFloat16(65519.0F)), 65504.0F);
  EXPECT_EQ(fromFloat16(toFloat16(65520.0F)), infinity);
  EXPECT_EQ(fromFloat16(toFloat16(-1e30F)), -infinity);
  EXPECT_EQ(fromFloat16(toFloat16(infinity)), infinity);
  EXPECT_EQ(fromBFloat16(toBFloat16(3.4e38F)), infinity);
  EXPECT_EQ(fromBFloat16(toBFloat16(-infinity)), -infinity);
}

}  // namespace
}  // namespace dure::collective
