#include "format/batch_rows.h"

#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <limits>

#include "format/array_split.h"
#include "format/test_files.h"

namespace dure::format {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::int64_t kAll[] = {0, 1};

// Two rows.
template <typename T>
std::unique_ptr<SourceSplit> splitOf(DType type, const std::vector<T>& numbers) {
  Array samples = makeArray(type, {2, static_cast<std::int64_t>(numbers.size() / 2)});
  std::memcpy(writableData(samples), numbers.data(), numbers.size() * sizeof(T));
  auto split = makeArraySplit("x", samples, "y", makeArray(DType::kU8, {2}));
  EXPECT_TRUE(split);
  return *std::move(split);
}

template <typename T>
Result<std::vector<float>> floatsOf(DType type, const std::vector<T>& numbers, Scaling scaling) {
  const auto split = splitOf(type, numbers);
  const auto batch = readRows(*split, kAll);
  std::vector<float> out(batch->elements());
  if (auto made = toFloats(*split, kAll, *batch, scaling, out.data()); !made)
    return std::move(made).error();
  return out;
}

TEST(BatchRows, OfEveryTypeBecomeFloats) {
  EXPECT_THAT(*floatsOf<std::uint8_t>(DType::kU8, {0, 255}, {.factor = 2, .offset = 1}),
              ElementsAre(1, 511));
  EXPECT_THAT(*floatsOf<std::int64_t>(DType::kI64, {-7, 1 << 20}, {}), ElementsAre(-7, 1 << 20));
  EXPECT_THAT(*floatsOf<double>(DType::kF64, {0.5, -1e30}, {}), ElementsAre(0.5f, -1e30f));
  EXPECT_THAT(*floatsOf<std::uint16_t>(DType::kBF16, {0x3f80, 0xc000}, {}), ElementsAre(1, -2));
}

TEST(BatchRows, HalvesAreWhatTheyAreElsewhere) {
  for (std::uint32_t bits = 0; bits < 0x10000; bits += 2) {
    const auto first = static_cast<std::uint16_t>(bits);
    const auto second = static_cast<std::uint16_t>(bits + 1);
    const std::uint16_t pair[] = {first, second};
    const auto* const bytes = reinterpret_cast<const std::byte*>(pair);
    const double expected[] = {numberAt(DType::kF16, bytes), numberAt(DType::kF16, bytes + 2)};
    const auto floats = floatsOf<std::uint16_t>(DType::kF16, {first, second}, {});
    const bool finite = std::isfinite(expected[0]) && std::isfinite(expected[1]);
    ASSERT_EQ(static_cast<bool>(floats), finite) << bits;
    if (!finite) continue;
    ASSERT_THAT(*floats, ElementsAre(expected[0], expected[1])) << bits;
  }
}

TEST(BatchRows, ThatAreNotFiniteAreNamed) {
  const auto why = [](DType type, const auto& numbers) {
    const auto floats = floatsOf(type, numbers, {});
    return floats ? "fine" : floats.error().message();
  };
  const float nan = std::nanf("");
  const float infinite = std::numeric_limits<float>::infinity();
  EXPECT_EQ(why(DType::kF32, std::vector<float>{1, 2, 3, nan}),
            "x: row 1: value 2 of the sample is NaN");
  EXPECT_EQ(why(DType::kF32, std::vector<float>{-infinite, 2, 3, 4}),
            "x: row 0: value 1 of the sample is infinite");
  EXPECT_EQ(why(DType::kF64, std::vector<double>{1, 1e200}),
            "x: row 1: value 1 of the sample is beyond what float32 holds");
}

TEST(BatchRows, AsWords) {
  const auto split = splitOf<std::int32_t>(DType::kI32, {1, 2, -3, 40});
  const auto range = scanWords(*split);
  ASSERT_TRUE(range);
  EXPECT_EQ(range->least, -3);
  EXPECT_EQ(range->most, 40);
  EXPECT_EQ(range->least_row, 1);
  std::vector<std::int64_t> words(4);
  toWords(*readRows(*split, kAll), 3, 0, words.data());
  EXPECT_THAT(words, ElementsAre(1, 2, 0, 0));
}

TEST(BatchRows, OfMoreNumbersThanCanBeCountedAreRefused) {
  const auto split = makeArraySplit("x", {.dtype = DType::kU8, .shape = {1, 1LL << 31, 1LL << 31}},
                                    "y", makeArray(DType::kU8, {1}));
  ASSERT_FALSE(split);
  EXPECT_THAT(split.error().message(), HasSubstr("too many numbers"));
}

}  // namespace
}  // namespace dure::format
