#include "average/combine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace dure::average {
namespace {

using format::DType;
using testing::ElementsAre;

template <typename T>
Numbers view(const std::vector<T>& values) {
  return {reinterpret_cast<const std::byte*>(values.data())};
}

std::vector<double> combined(const Rule& rule, const std::vector<std::vector<float>>& models) {
  std::vector<Numbers> views;
  for (const auto& model : models) views.push_back(view(model));
  std::vector<double> out(models[0].size());
  EXPECT_EQ(combine(rule, DType::kF32, views, out), std::nullopt);
  return out;
}

TEST(Combine, MeanMedianAndTrimmedMean) {
  const std::vector<std::vector<float>> models = {{1, -8}, {2, 0}, {9, 4}, {100, 4}};
  EXPECT_THAT(combined({}, models), ElementsAre(28, 0));
  EXPECT_THAT(combined({.weights = {1, 1, 2, 0}}, models), ElementsAre(5.25, 0));
  EXPECT_THAT(combined({.method = Method::kMedian}, models), ElementsAre(5.5, 2));
  EXPECT_THAT(combined({.method = Method::kTrimmed, .trim = 1}, models), ElementsAre(5.5, 2));
  EXPECT_THAT(combined({.method = Method::kMedian}, {{3}, {1}, {2}}), ElementsAre(2));
}

TEST(Combine, FindsTheFirstNumberThatIsNotFinite) {
  constexpr float kInfinite = std::numeric_limits<float>::infinity();
  std::vector<float> sound(10'000, 1.0F);
  for (const float odd : {kInfinite, -kInfinite, std::nanf("")}) {
    std::vector<float> bad = sound;
    bad[7001] = odd;
    const std::vector<Numbers> views = {view(sound), view(bad)};
    std::vector<double> out(sound.size());
    for (const Rule& rule : {Rule{}, Rule{.method = Method::kMedian}, Rule{.weights = {1, 0}}}) {
      EXPECT_EQ(combine(rule, DType::kF32, views, out), 7001u);
    }
  }
}

TEST(Combine, VariancesFollowTheLawOfTotalVariance) {
  // Two halves of 0, 2, 10, 14: means 1 and 12, variances 1 and 4; of all: mean 6.5,
  // variance 32.75.
  const std::vector<double> variance_a{1}, variance_b{4}, mean_a{1}, mean_b{12};
  const std::vector<Numbers> variances = {view(variance_a), view(variance_b)};
  const std::vector<Numbers> means = {view(mean_a), view(mean_b)};
  std::vector<double> out(1);
  EXPECT_EQ(combineVariances({}, DType::kF64, variances, means, out), std::nullopt);
  EXPECT_DOUBLE_EQ(out[0], 32.75);
}

TEST(Combine, HalvesAndOtherByteOrders) {
  const std::vector<std::uint16_t> halves = {0x3c00, 0xc000, 0x0001,
                                             0x7bff};  // 1, -2, 2^-24, 65504
  std::vector<double> numbers(halves.size());
  toDoubles(DType::kF16, view(halves), numbers);
  EXPECT_THAT(numbers, ElementsAre(1, -2, std::ldexp(1, -24), 65504));
  std::vector<std::uint16_t> back(halves.size());
  fromDoubles(DType::kF16, numbers, false, reinterpret_cast<std::byte*>(back.data()));
  EXPECT_EQ(back, halves);
  // Between two halves the even one; beyond the largest, infinity.
  const std::vector<double> odd = {1 + std::ldexp(1, -11), 1 + 3 * std::ldexp(1, -11), 65520, 1e9};
  fromDoubles(DType::kF16, odd, false, reinterpret_cast<std::byte*>(back.data()));
  EXPECT_THAT(back, ElementsAre(0x3c00, 0x3c02, 0x7c00, 0x7c00));
  fromDoubles(DType::kBF16, std::vector<double>{1, -3.5}, false,
              reinterpret_cast<std::byte*>(back.data()));
  EXPECT_EQ(back[0], 0x3f80);
  EXPECT_EQ(back[1], 0xc060);
  const float one = 1.0F;
  std::uint32_t turned = 0;
  fromDoubles(DType::kF32, std::vector<double>{1}, true, reinterpret_cast<std::byte*>(&turned));
  EXPECT_EQ(turned, 0x0000803fu);
  std::vector<double> read(1);
  toDoubles(DType::kF32, {reinterpret_cast<const std::byte*>(&turned), true}, read);
  EXPECT_EQ(read[0], one);
}

}  // namespace
}  // namespace dure::average
