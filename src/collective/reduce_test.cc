#include "collective/reduce.h"

#include <gtest/gtest.h>

#include <limits>

#include "collective/test_reference.h"

namespace dure::collective {
namespace {

using Bytes = std::vector<std::byte>;

std::vector<const std::byte*> pointersTo(const std::vector<Bytes>& inputs) {
  std::vector<const std::byte*> pointers;
  for (const Bytes& input : inputs) pointers.push_back(input.data());
  return pointers;
}

TEST(Reduce, EveryNumberAndReductionIsThatOfOneAtATime) {
  for (const Number number : reference::kNumbers) {
    for (const Reduction reduction : reference::kReductions) {
      for (const std::size_t count : {0u, 1u, 7u, 1000u, 20'011u}) {
        for (unsigned members = 1; members <= 5; ++members) {
          std::vector<Bytes> inputs;
          for (unsigned m = 0; m < members; ++m) {
            inputs.push_back(reference::someNumbers(number, count, m));
          }
          Bytes out(count * sizeOf(number));
          reduce(number, reduction, out.data(), pointersTo(inputs), out.size());
          const Bytes expected =
              members == 1 ? inputs[0] : reference::reduce(number, reduction, inputs);
          ASSERT_EQ(out, expected) << "number " << static_cast<int>(number) << ", reduction "
                                   << static_cast<int>(reduction) << ", " << members << " members";
        }
      }
    }
  }
}

TEST(Reduce, TheResultMayReplaceAnySource) {
  for (const Number number : {Number::kFloat32, Number::kBFloat16}) {
    for (unsigned replaced = 1; replaced < 16; ++replaced) {
      std::vector<Bytes> inputs;
      for (unsigned m = 0; m < 4; ++m) inputs.push_back(reference::someNumbers(number, 9001, m));
      const Bytes expected = reference::reduce(number, Reduction::kSum, inputs);
      std::vector<std::byte*> outs;
      for (unsigned m = 0; m < 4; ++m) {
        if ((replaced >> m) & 1) outs.push_back(inputs[m].data());
      }
      reduce(number, Reduction::kSum, outs, pointersTo(inputs), expected.size());
      for (unsigned m = 0; m < 4; ++m) {
        EXPECT_EQ(inputs[m] == expected, ((replaced >> m) & 1) != 0) << replaced << " " << m;
      }
    }
  }
}

TEST(Reduce, IntegersWrapAround) {
  const std::int32_t a = std::numeric_limits<std::int32_t>::max();
  const std::int32_t b = 2;
  std::int32_t sum = 0;
  const std::byte* sources[] = {reinterpret_cast<const std::byte*>(&a),
                                reinterpret_cast<const std::byte*>(&b)};
  reduce(Number::kInt32, Reduction::kSum, reinterpret_cast<std::byte*>(&sum), sources, 4);
  EXPECT_EQ(sum, std::numeric_limits<std::int32_t>::min() + 1);
  std::int32_t product = 0;
  reduce(Number::kInt32, Reduction::kProduct, reinterpret_cast<std::byte*>(&product), sources, 4);
  EXPECT_EQ(product, -2);
}

}  // namespace
}  // namespace dure::collective
