#include "format/array.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace dure::format {
namespace {

template <typename T>
double at(DType type, T value) {
  std::byte bytes[sizeof(T) + 1];
  std::memcpy(bytes + 1, &value, sizeof value);  // an odd address must do
  return numberAt(type, bytes + 1);
}

TEST(Array, NumbersOfEveryTypeAreRead) {
  EXPECT_EQ(at<std::uint8_t>(DType::kBool, 7), 1);
  EXPECT_EQ(at<std::uint8_t>(DType::kU8, 255), 255);
  EXPECT_EQ(at<std::int8_t>(DType::kI8, -1), -1);
  EXPECT_EQ(at<std::uint16_t>(DType::kU16, 65535), 65535);
  EXPECT_EQ(at<std::int16_t>(DType::kI16, -2), -2);
  EXPECT_EQ(at<std::uint32_t>(DType::kU32, 4'000'000'000u), 4e9);
  EXPECT_EQ(at<std::int32_t>(DType::kI32, -3), -3);
  EXPECT_EQ(at<std::uint64_t>(DType::kU64, std::uint64_t{1} << 63u), std::ldexp(1, 63));
  EXPECT_EQ(at<std::int64_t>(DType::kI64, -4), -4);
  EXPECT_EQ(at<float>(DType::kF32, 0.5f), 0.5);
  EXPECT_EQ(at<double>(DType::kF64, 0.1), 0.1);
  EXPECT_EQ(at<std::uint16_t>(DType::kBF16, 0x3fc0), 1.5);
}

TEST(Array, HalvesAreReadWithTheirSpecialValues) {
  const auto half = [](std::uint16_t bits) { return at(DType::kF16, bits); };
  EXPECT_EQ(half(0x3c00), 1);
  EXPECT_EQ(half(0xc000), -2);
  EXPECT_EQ(half(0x3555), 0.333251953125);
  EXPECT_EQ(half(0x7bff), 65504);
  EXPECT_EQ(half(0x0001), std::ldexp(1, -24));
  EXPECT_EQ(half(0x0000), 0);
  EXPECT_EQ(half(0x7c00), std::numeric_limits<double>::infinity());
  EXPECT_EQ(half(0xfc00), -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(half(0x7e00)));
}

TEST(Array, NamesAndSizesAreNumpys) {
  EXPECT_EQ(dtypeName(DType::kU8), "uint8");
  EXPECT_EQ(dtypeName(DType::kF32), "float32");
  EXPECT_EQ(dtypeName(DType::kBool), "bool");
  EXPECT_EQ(sizeOf(DType::kF16), 2u);
  EXPECT_EQ(sizeOf(DType::kI64), 8u);
  EXPECT_TRUE(isFloat(DType::kBF16));
  EXPECT_FALSE(isFloat(DType::kU64));
}

TEST(Array, SizesThatOverflowAreNoSizes) {
  const auto bytes = [](std::vector<std::int64_t> shape) {
    return checkedBytes(DType::kF64, shape);
  };
  EXPECT_EQ(bytes({2, 3}), 48u);
  EXPECT_EQ(bytes({}), 8u);
  EXPECT_EQ(bytes({0, 5}), 0u);
  EXPECT_FALSE(bytes({-1}));
  EXPECT_FALSE(bytes({std::int64_t{1} << 32u, std::int64_t{1} << 32u}));
  EXPECT_FALSE(bytes({std::int64_t{1} << 62u}));
  // Not excused by the zero: the samples of such an array would be too large.
  EXPECT_FALSE(bytes({0, std::int64_t{1} << 32u, std::int64_t{1} << 32u}));
}

TEST(Array, MadeArraysAreZeroAndTurnable) {
  Array made = makeArray(DType::kU16, {2, 2});
  EXPECT_EQ(made.elements(), 4);
  EXPECT_EQ(made.bytes(), 8u);
  EXPECT_EQ(numberAt(DType::kU16, made.data + 6), 0);
  writableData(made)[0] = std::byte{1};
  swapBytes(writableData(made), 4, 2);
  EXPECT_EQ(numberAt(DType::kU16, made.data), 256);
}

}  // namespace
}  // namespace dure::format
