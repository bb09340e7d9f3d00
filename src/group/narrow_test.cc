#include "group/narrow.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "collective/half.h"
#include "collective/reference.h"
#include "group/test_ranks.h"

namespace dure::group {
namespace {

constexpr Wire kNarrow[] = {Wire::kBFloat16, Wire::kFloat16};

float numberOf(int rank, std::size_t i) {
  return std::sin(static_cast<float>(i) * 0.37F + static_cast<float>(rank)) *
         std::exp2(static_cast<float>(i % 9) - 6.0F);
}

std::vector<float> numbersOf(int rank, std::size_t count) {
  std::vector<float> numbers(count);
  for (std::size_t i = 0; i < count; ++i) numbers[i] = numberOf(rank, i);
  return numbers;
}

TEST(Narrow, WhatRoundingLosesIsAddedToTheNext) {
  for (const Wire wire : kNarrow) {
    const std::vector<float> value{1.0001F};
    std::vector<float> held(1);
    std::vector<std::uint16_t> narrow(1);
    std::vector<float> wide(1);
    double sum = 0;
    for (int turn = 0; turn < 1000; ++turn) {
      narrowNumbers(wire, value, held, narrow);
      widenNumbers(wire, narrow, wide);
      sum += wide[0];
    }
    EXPECT_NEAR(sum, 1000.1, 0.01);
  }
}

TEST(Narrow, TooLargeIsTheLargestAndInfinitiesGoThrough) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> values{1e6F, -1e6F, 65519.0F, infinity, -infinity, std::nanf("")};
  std::vector<float> held(values.size());
  std::vector<std::uint16_t> narrow(values.size());
  std::vector<float> wide(values.size());
  narrowNumbers(Wire::kFloat16, values, held, narrow);
  widenNumbers(Wire::kFloat16, narrow, wide);
  EXPECT_EQ(wide[0], 65504.0F);
  EXPECT_EQ(wide[1], -65504.0F);
  EXPECT_EQ(wide[2], 65504.0F);
  EXPECT_EQ(wide[3], infinity);
  EXPECT_EQ(wide[4], -infinity);
  EXPECT_TRUE(std::isnan(wide[5]));
  // So that one overflow does not spoil all later sums.
  EXPECT_EQ(held, std::vector<float>(values.size(), 0.0F));
}

TEST(Narrow, FeedbackComesBackFromItsBytes) {
  Feedback feedback;
  feedback[0] = {.mine = {1.5F, -2.5F}, .summed = {0.25F}};
  feedback[7] = {.mine = {3.0F}};
  const std::string bytes = writeFeedback(feedback);
  auto read = readFeedback(bytes);
  ASSERT_TRUE(read);
  EXPECT_EQ(writeFeedback(*read), bytes);
  EXPECT_EQ((*read)[0].mine[1], -2.5F);
  for (std::size_t length = 1; length < bytes.size(); ++length) {
    // A whole number of streams is also a right text; it has lost the second one.
    auto cut = readFeedback(std::string_view(bytes).substr(0, length));
    if (cut) {
      EXPECT_LT(cut->size(), feedback.size());
    } else {
      EXPECT_EQ(cut.error().code(), Code::kInvalid);
    }
  }
  std::string damaged = bytes;
  std::memset(damaged.data() + 24, 0xFF, 8);  // the first count
  EXPECT_FALSE(readFeedback(damaged));
  EXPECT_FALSE(readFeedback("something else"));
}

// Sums of the same numbers again and again, on three hosts and on two.
TEST(Narrow, ErrorsAreSmallAndTheirMeanVanishes) {
  constexpr std::size_t kCount = 30'000;
  for (const std::string hosts : {"ab", "abc", "aabc"}) {
    for (const Wire wire : kNarrow) {
      runOnHosts(hosts, wire, [&](TwoLevelGroup& group) {
        std::vector<double> exact(kCount);
        std::vector<double> sizes(kCount);
        for (int rank = 0; rank < group.size(); ++rank) {
          const auto numbers = numbersOf(rank, kCount);
          for (std::size_t i = 0; i < kCount; ++i) {
            exact[i] += numbers[i];
            sizes[i] += std::abs(numbers[i]);
          }
        }
        const double unit = wire == Wire::kBFloat16 ? 0x1p-8 : 0x1p-11;
        constexpr int kTurns = 40;
        std::vector<double> mean(kCount);
        for (int turn = 0; turn < kTurns; ++turn) {
          auto data = numbersOf(group.rank(), kCount);
          ASSERT_TRUE(group.allReduce(data, 3));
          for (std::size_t i = 0; i < kCount; ++i) {
            mean[i] += static_cast<double>(data[i]) / kTurns;
            // Rounded twice, with what was held back from twice before.
            ASSERT_NEAR(data[i], exact[i], sizes[i] * unit * 5 + 1e-6) << hosts;
          }
        }
        for (std::size_t i = 0; i < kCount; ++i) {
          ASSERT_NEAR(mean[i], exact[i], sizes[i] * unit * 4 / kTurns + 1e-6) << hosts;
        }
      });
    }
  }
}

TEST(Narrow, EveryoneGetsTheSameBits) {
  for (const std::string hosts : {"aabb", "abcab"}) {
    runOnHosts(hosts, Wire::kBFloat16, [&](TwoLevelGroup& group) {
      auto data = numbersOf(group.rank(), 1'300'001);
      ASSERT_TRUE(group.allReduce(data, 0));
      std::vector<float> root = data;
      ASSERT_TRUE(group.broadcast(std::as_writable_bytes(std::span(root)), 0));
      EXPECT_EQ(data, root);
    });
  }
}

TEST(Narrow, HalfTheBytesTravel) {
  for (const std::string hosts : {"ab", "abc"}) {
    std::int64_t wide = 0;
    std::int64_t narrow = 0;
    for (auto [wire, bytes] : {std::pair{Wire::kFloat32, &wide}, {Wire::kFloat16, &narrow}}) {
      runOnHosts(hosts, wire, [&, bytes = bytes](TwoLevelGroup& group) {
        const auto before = group.traffic().network_bytes;
        auto data = numbersOf(group.rank(), 1'200'000);
        ASSERT_TRUE(group.allReduce(data, 0));
        if (group.rank() == 0) *bytes = group.traffic().network_bytes - before;
      });
    }
    EXPECT_NEAR(static_cast<double>(narrow) / static_cast<double>(wide), 0.5, 0.001);
    EXPECT_LE(wide, 4 * 1'200'000 * 2 * (static_cast<std::int64_t>(hosts.size()) - 1) /
                            static_cast<std::int64_t>(hosts.size()) +
                        1000);
  }
}

TEST(Narrow, ARunGoesOnWithTheSameBits) {
  constexpr std::size_t kCount = 1'200'000;
  std::vector<std::string> saved(4);
  std::vector<std::vector<float>> later(4);
  const auto sumTwice = [](TwoLevelGroup& group) {
    std::vector<float> data;
    for (int turn = 0; turn < 2; ++turn) {
      data = numbersOf(group.rank(), kCount);
      EXPECT_TRUE(group.allReduce(data, 1));
    }
    return data;
  };
  runOnHosts("abbc", Wire::kBFloat16, [&](TwoLevelGroup& group) {
    const auto rank = static_cast<std::size_t>(group.rank());
    sumTwice(group);
    saved[rank] = group.feedback();
    // Rank 2 is not the first of its host.
    EXPECT_EQ(saved[rank].empty(), rank == 2);
    later[rank] = sumTwice(group);
  });
  runOnHosts("abbc", Wire::kBFloat16, [&](TwoLevelGroup& group) {
    const auto rank = static_cast<std::size_t>(group.rank());
    EXPECT_FALSE(group.restoreFeedback("damaged"));
    ASSERT_TRUE(group.restoreFeedback(saved[rank]));
    EXPECT_EQ(sumTwice(group), later[rank]);
  });
  runOnHosts("abbc", Wire::kBFloat16, [&](TwoLevelGroup& group) {
    EXPECT_NE(sumTwice(group), later[static_cast<std::size_t>(group.rank())]);
  });
}

}  // namespace
}  // namespace dure::group
