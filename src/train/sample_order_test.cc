#include "train/sample_order.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <set>

namespace dure::train {
namespace {

std::vector<std::int64_t> epochOf(const SampleOrder& order, std::int64_t rows, std::int64_t epoch) {
  std::vector<std::int64_t> seen;
  for (std::int64_t place = 0; place < rows; ++place) seen.push_back(order.rowAt(epoch, place));
  return seen;
}

TEST(SampleOrderTest, AnEpochGoesThroughEveryRowOnce) {
  for (const std::int64_t rows : {1, 2, 3, 5, 16, 17, 100, 1000, 4097}) {
    const SampleOrder order(7, rows, 10);
    std::vector<std::int64_t> seen = epochOf(order, rows, 3);
    std::sort(seen.begin(), seen.end());
    for (std::int64_t i = 0; i < rows; ++i) ASSERT_EQ(seen[static_cast<std::size_t>(i)], i) << rows;
  }
}

TEST(SampleOrderTest, EpochsAndSeedsDifferAndRepeat) {
  const SampleOrder order(7, 1000, 10);
  EXPECT_EQ(epochOf(order, 1000, 0), epochOf(SampleOrder(7, 1000, 10), 1000, 0));
  EXPECT_NE(epochOf(order, 1000, 0), epochOf(order, 1000, 1));
  EXPECT_NE(epochOf(order, 1000, 0), epochOf(SampleOrder(8, 1000, 10), 1000, 0));
}

// Neighbours in the file are no neighbours in the epoch, and small rows come as often early as
// late.
TEST(SampleOrderTest, TheOrderIsShuffled) {
  const std::vector<std::int64_t> seen = epochOf(SampleOrder(1, 10'000, 10), 10'000, 0);
  int neighbours = 0;
  double early = 0;
  for (std::size_t i = 0; i + 1 < seen.size(); ++i) {
    neighbours += std::abs(seen[i] - seen[i + 1]) == 1;
    if (i < 5000) early += static_cast<double>(seen[i]);
  }
  EXPECT_LT(neighbours, 20);             // 2 are expected
  EXPECT_NEAR(early / 5000, 5000, 120);  // three standard deviations
}

TEST(SampleOrderTest, TheLastStepHasWhatIsLeft) {
  const SampleOrder order(1, 105, 20);
  EXPECT_EQ(order.stepsPerEpoch(), 6);
  EXPECT_EQ(order.rowsInStep(0), 20);
  EXPECT_EQ(order.rowsInStep(5), 5);
}

TEST(SampleOrderTest, SharesAreDisjointWholeAndEven) {
  for (const std::int64_t rows : {0, 1, 5, 7, 100}) {
    for (const int members : {1, 2, 3, 8}) {
      std::int64_t next = 0, least = rows, most = 0;
      for (int member = 0; member < members; ++member) {
        const Share share = shareOf(rows, member, members);
        EXPECT_EQ(share.begin, next);
        next = share.end;
        least = std::min(least, share.size());
        most = std::max(most, share.size());
      }
      EXPECT_EQ(next, rows);
      EXPECT_LE(most - least, 1);
    }
  }
}

}  // namespace
}  // namespace dure::train
