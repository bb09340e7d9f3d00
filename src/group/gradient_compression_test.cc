#include "group/gradient_compression.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "collective/half.h"
#include "collective/test_reference.h"
#include "group/test_ranks.h"

namespace dure::group {
namespace {

constexpr Compression kCompressions[] = {Compression::kBFloat16, Compression::kFloat16};

float numberOf(int rank, std::size_t i) {
  return std::sin(static_cast<float>(i) * 0.37F + static_cast<float>(rank)) *
         std::exp2(static_cast<float>(i % 9) - 6.0F);
}

std::vector<float> numbersOf(int rank, std::size_t count) {
  std::vector<float> numbers(count);
  for (std::size_t i = 0; i < count; ++i) numbers[i] = numberOf(rank, i);
  return numbers;
}

TEST(GradientCompression, TheRoundingErrorIsAddedToTheNext) {
  for (const Compression compression : kCompressions) {
    const std::vector<float> value{1.0001F};
    std::vector<float> residual(1);
    std::vector<std::uint16_t> compressed(1);
    std::vector<float> decompressed(1);
    double sum = 0;
    for (int turn = 0; turn < 1000; ++turn) {
      compress(compression, value, residual, compressed);
      decompress(compression, compressed, decompressed);
      sum += decompressed[0];
    }
    EXPECT_NEAR(sum, 1000.1, 0.01);
  }
}

TEST(GradientCompression, TooLargeIsTheLargestAndInfinitiesGoThrough) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> values{1e6F, -1e6F, 65519.0F, infinity, -infinity, std::nanf("")};
  std::vector<float> residual(values.size());
  std::vector<std::uint16_t> compressed(values.size());
  std::vector<float> decompressed(values.size());
  compress(Compression::kFloat16, values, residual, compressed);
  decompress(Compression::kFloat16, compressed, decompressed);
  EXPECT_EQ(decompressed[0], 65504.0F);
  EXPECT_EQ(decompressed[1], -65504.0F);
  EXPECT_EQ(decompressed[2], 65504.0F);
  EXPECT_EQ(decompressed[3], infinity);
  EXPECT_EQ(decompressed[4], -infinity);
  EXPECT_TRUE(std::isnan(decompressed[5]));
  // So that one overflow does not spoil all later all-reduces.
  EXPECT_EQ(residual, std::vector<float>(values.size(), 0.0F));
}

TEST(GradientCompression, ResidualsComeBackFromTheirBytes) {
  Residuals residuals;
  residuals[0] = {.own = {1.5F, -2.5F}, .reduced = {0.25F}};
  residuals[7] = {.own = {3.0F}};
  const std::string bytes = writeResiduals(residuals);
  auto read = readResiduals(bytes);
  ASSERT_TRUE(read);
  EXPECT_EQ(writeResiduals(*read), bytes);
  EXPECT_EQ((*read)[0].own[1], -2.5F);
  for (std::size_t length = 1; length < bytes.size(); ++length) {
    // A whole number of streams is also a right text; it has lost the second one.
    auto cut = readResiduals(std::string_view(bytes).substr(0, length));
    if (cut) {
      EXPECT_LT(cut->size(), residuals.size());
    } else {
      EXPECT_EQ(cut.error().code(), Code::kInvalid);
    }
  }
  std::string damaged = bytes;
  std::memset(damaged.data() + 24, 0xFF, 8);  // the first count
  EXPECT_FALSE(readResiduals(damaged));
  EXPECT_FALSE(readResiduals("something else"));
}

// All-reduces of the same numbers again and again, on three hosts and on two.
TEST(GradientCompression, ErrorsAreSmallAndTheirMeanVanishes) {
  constexpr std::size_t kCount = 30'000;
  for (const std::string hosts : {"ab", "abc", "aabc"}) {
    for (const Compression compression : kCompressions) {
      runOnHosts(hosts, compression, [&](TwoLevelGroup& group) {
        std::vector<double> exact(kCount);
        std::vector<double> sizes(kCount);
        for (int rank = 0; rank < group.size(); ++rank) {
          const auto numbers = numbersOf(rank, kCount);
          for (std::size_t i = 0; i < kCount; ++i) {
            exact[i] += numbers[i];
            sizes[i] += std::abs(numbers[i]);
          }
        }
        const double unit = compression == Compression::kBFloat16 ? 0x1p-8 : 0x1p-11;
        constexpr int kTurns = 40;
        std::vector<double> mean(kCount);
        for (int turn = 0; turn < kTurns; ++turn) {
          auto data = numbersOf(group.rank(), kCount);
          ASSERT_TRUE(group.allReduce(data, 3));
          for (std::size_t i = 0; i < kCount; ++i) {
            mean[i] += static_cast<double>(data[i]) / kTurns;
            // Rounded twice, with the residuals of twice before.
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

TEST(GradientCompression, EveryoneGetsTheSameBits) {
  for (const std::string hosts : {"aabb", "abcab"}) {
    runOnHosts(hosts, Compression::kBFloat16, [&](TwoLevelGroup& group) {
      auto data = numbersOf(group.rank(), 1'300'001);
      ASSERT_TRUE(group.allReduce(data, 0));
      std::vector<float> root = data;
      ASSERT_TRUE(group.broadcast(std::as_writable_bytes(std::span(root)), 0));
      EXPECT_EQ(data, root);
    });
  }
}

TEST(GradientCompression, HalfTheBytesTravel) {
  for (const std::string hosts : {"ab", "abc"}) {
    std::int64_t plain = 0;
    std::int64_t compressed = 0;
    for (auto [compression, bytes] :
         {std::pair{Compression::kNone, &plain}, {Compression::kFloat16, &compressed}}) {
      runOnHosts(hosts, compression, [&, bytes = bytes](TwoLevelGroup& group) {
        const auto before = group.traffic().network_bytes;
        auto data = numbersOf(group.rank(), 1'200'000);
        ASSERT_TRUE(group.allReduce(data, 0));
        if (group.rank() == 0) *bytes = group.traffic().network_bytes - before;
      });
    }
    EXPECT_NEAR(static_cast<double>(compressed) / static_cast<double>(plain), 0.5, 0.001);
    EXPECT_LE(plain, 4 * 1'200'000 * 2 * (static_cast<std::int64_t>(hosts.size()) - 1) /
                             static_cast<std::int64_t>(hosts.size()) +
                         1000);
  }
}

TEST(GradientCompression, ARunGoesOnWithTheSameBits) {
  constexpr std::size_t kCount = 1'200'000;
  std::vector<std::string> saved(4);
  std::vector<std::vector<float>> later(4);
  const auto reduceTwice = [](TwoLevelGroup& group) {
    std::vector<float> data;
    for (int turn = 0; turn < 2; ++turn) {
      data = numbersOf(group.rank(), kCount);
      EXPECT_TRUE(group.allReduce(data, 1));
    }
    return data;
  };
  runOnHosts("abbc", Compression::kBFloat16, [&](TwoLevelGroup& group) {
    const auto rank = static_cast<std::size_t>(group.rank());
    reduceTwice(group);
    saved[rank] = group.residuals();
    // Rank 2 is not the first of its host.
    EXPECT_EQ(saved[rank].empty(), rank == 2);
    later[rank] = reduceTwice(group);
  });
  runOnHosts("abbc", Compression::kBFloat16, [&](TwoLevelGroup& group) {
    const auto rank = static_cast<std::size_t>(group.rank());
    EXPECT_FALSE(group.restoreResiduals("damaged"));
    ASSERT_TRUE(group.restoreResiduals(saved[rank]));
    EXPECT_EQ(reduceTwice(group), later[rank]);
  });
  runOnHosts("abbc", Compression::kBFloat16, [&](TwoLevelGroup& group) {
    EXPECT_NE(reduceTwice(group), later[static_cast<std::size_t>(group.rank())]);
  });
}

}  // namespace
}  // namespace dure::group
