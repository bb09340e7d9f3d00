#include "copy/shards.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

namespace dure::copy {
namespace {

std::vector<std::int64_t> sizesOf(const std::vector<ShardNumber>& shard_of, int shards) {
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(shards));
  for (const ShardNumber shard : shard_of) ++sizes.at(shard);
  return sizes;
}

TEST(AssignRows, ShardsAreEvenAndShuffledBySeed) {
  const auto assigned = assignRows(1003, 5, 1);
  EXPECT_THAT(sizesOf(assigned, 5), testing::ElementsAre(201, 201, 201, 200, 200));
  EXPECT_EQ(assigned, assignRows(1003, 5, 1));
  EXPECT_NE(assigned, assignRows(1003, 5, 2));
  EXPECT_FALSE(std::is_sorted(assigned.begin(), assigned.end()));
  // No row is bound to a shard: over many seeds each gets its part.
  std::vector<int> first(5);
  for (std::uint64_t seed = 0; seed < 1000; ++seed) ++first[assignRows(100, 5, seed)[0]];
  for (const int count : first) EXPECT_NEAR(count, 200, 60);
}

TEST(AssignRows, AreWhatTheyWere) {
  EXPECT_THAT(assignRows(8, 3, 7), testing::ElementsAreArray(assignRows(8, 3, 7)));
  EXPECT_THAT(sizesOf(assignRows(3, 5, 1), 5), testing::ElementsAre(1, 1, 1, 0, 0));
  EXPECT_TRUE(assignRows(0, 2, 1).empty());
}

TEST(AssignStratified, EveryClassIsEven) {
  std::vector<std::int32_t> classes;
  const std::vector<int> counts = {1000, 7, 0, 3, 491};
  for (std::size_t each = 0; each < counts.size(); ++each) {
    classes.insert(classes.end(), static_cast<std::size_t>(counts[each]),
                   static_cast<std::int32_t>(each));
  }
  constexpr int kShards = 4;
  const auto assigned = assignStratified(classes, kShards, 3);
  std::map<std::pair<int, int>, int> rows;
  for (std::size_t row = 0; row < classes.size(); ++row) ++rows[{classes[row], assigned[row]}];
  for (std::size_t each = 0; each < counts.size(); ++each) {
    for (int shard = 0; shard < kShards; ++shard) {
      const int found = rows[{static_cast<int>(each), shard}];
      EXPECT_GE(found, counts[each] / kShards);
      EXPECT_LE(found, counts[each] / kShards + 1);
    }
  }
  const auto sizes = sizesOf(assigned, kShards);
  EXPECT_LE(
      *std::max_element(sizes.begin(), sizes.end()) - *std::min_element(sizes.begin(), sizes.end()),
      1);
  EXPECT_NE(assigned, assignStratified(classes, kShards, 4));
  EXPECT_TRUE(assignStratified({}, 2, 1).empty());
}

}  // namespace
}  // namespace dure::copy
