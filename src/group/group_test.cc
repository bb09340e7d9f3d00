#include "group/group.h"

#include <gtest/gtest.h>

#include <cstring>

#include "collective/test_reference.h"
#include "group/test_ranks.h"

namespace dure::group {
namespace {

const std::vector<std::string> kLayouts = {"aa", "ab", "aab", "abab", "abc", "aabccc"};
// The last is more than one piece between hosts, and no multiple of anything.
constexpr std::size_t kCounts[] = {0, 1, 777, 30'001, 1'500'003};

std::vector<float> floatsOf(int rank, std::size_t count) {
  const auto bytes = collective::reference::someNumbers(collective::Number::kFloat32, count,
                                                        static_cast<unsigned>(rank));
  std::vector<float> floats(count);
  if (count > 0) std::memcpy(floats.data(), bytes.data(), bytes.size());
  return floats;
}

// The same everywhere, bit for bit.
template <typename T>
bool isSameEverywhere(Group& group, const std::vector<T>& data) {
  std::vector<T> all(data.size() * static_cast<std::size_t>(group.size()));
  EXPECT_TRUE(
      group.allGather(std::as_bytes(std::span(data)), std::as_writable_bytes(std::span(all))));
  for (std::size_t at = 0; at < all.size(); at += data.size()) {
    if (std::memcmp(all.data() + at, data.data(), data.size() * sizeof(T)) != 0) return false;
  }
  return true;
}

TEST(Group, Topology) {
  const Topology topology = topologyOf(3, {"x", "y", "x", "y", "z"});
  EXPECT_EQ(topology.hosts, (std::vector<std::vector<int>>{{0, 2}, {1, 3}, {4}}));
  EXPECT_EQ(topology.size(), 5);
  EXPECT_EQ(topology.hostOf(3), 1);
  EXPECT_EQ(topology.memberOf(3), 1);
  EXPECT_EQ(topology.memberOf(4), 0);
}

TEST(Group, RegisteredBuffersGiveTheSameBits) {
  for (const std::string& hosts : kLayouts) {
    runOnHosts(hosts, Compression::kNone, [&](TwoLevelGroup& group) {
      constexpr std::size_t kCount = kCounts[4];
      auto copied = floatsOf(group.rank(), kCount);
      ASSERT_TRUE(group.allReduce(copied, 0));
      EXPECT_EQ(group.traffic().in_place, 0);
      auto data = floatsOf(group.rank(), kCount);
      const auto registered = group.registerBuffer(data);
      EXPECT_EQ(registered != nullptr, group.hasNeighbours());
      ASSERT_TRUE(group.allReduce(data, 0));
      EXPECT_EQ(std::memcmp(data.data(), copied.data(), kCount * sizeof(float)), 0) << hosts;
      EXPECT_EQ(group.traffic().in_place > 0, group.hasNeighbours());
    });
  }
}

TEST(Group, AllReducesFloats) {
  for (const std::string& hosts : kLayouts) {
    runOnHosts(hosts, Compression::kNone, [&](TwoLevelGroup& group) {
      EXPECT_EQ(group.size(), static_cast<int>(hosts.size()));
      for (const std::size_t count : kCounts) {
        std::vector<double> exact(count);
        for (int rank = 0; rank < group.size(); ++rank) {
          const auto floats = floatsOf(rank, count);
          for (std::size_t i = 0; i < count; ++i) exact[i] += floats[i];
        }
        auto data = floatsOf(group.rank(), count);
        const auto status = group.allReduce(data, 0);
        ASSERT_TRUE(status) << status.error().message();
        for (std::size_t i = 0; i < count; ++i) ASSERT_NEAR(data[i], exact[i], 1e-5) << hosts;
        EXPECT_TRUE(isSameEverywhere(group, data));
      }
    });
  }
}

TEST(Group, AllReducesOtherNumbers) {
  for (const std::string& hosts : kLayouts) {
    runOnHosts(hosts, Compression::kBFloat16, [&](TwoLevelGroup& group) {
      const int size = group.size();
      std::vector<double> doubles(50'001, 0.1 * (group.rank() + 1));
      ASSERT_TRUE(group.allReduce(doubles));
      EXPECT_NEAR(doubles.back(), 0.05 * size * (size + 1), 1e-12);
      std::vector<std::int64_t> integers(50'001, 1'000'000'000'007LL * (group.rank() + 1));
      ASSERT_TRUE(group.allReduce(integers));
      EXPECT_EQ(integers.back(), 1'000'000'000'007LL * size * (size + 1) / 2);
      // Any number and reduction there is.
      auto halves = collective::reference::someNumbers(collective::Number::kBFloat16, 5000, 1);
      const auto same = halves;
      ASSERT_TRUE(
          group.allReduce(halves, collective::Number::kBFloat16, collective::Reduction::kMax));
      EXPECT_EQ(halves, same);
    });
  }
}

TEST(Group, BroadcastsFromEveryRank) {
  for (const std::string& hosts : kLayouts) {
    runOnHosts(hosts, Compression::kNone, [&](TwoLevelGroup& group) {
      for (int root = 0; root < group.size(); ++root) {
        for (const std::size_t count : {std::size_t{0}, std::size_t{5}, std::size_t{700'001}}) {
          auto data = floatsOf(group.rank(), count);
          ASSERT_TRUE(group.broadcast(std::as_writable_bytes(std::span(data)), root));
          ASSERT_EQ(data, floatsOf(root, count));
        }
      }
    });
  }
}

TEST(Group, AllGathersInOrderOfTheRanks) {
  for (const std::string& hosts : kLayouts) {
    runOnHosts(hosts, Compression::kNone, [&](TwoLevelGroup& group) {
      for (const std::size_t count : {std::size_t{0}, std::size_t{5}, std::size_t{200'001}}) {
        const auto mine = floatsOf(group.rank(), count);
        std::vector<float> all(count * hosts.size());
        ASSERT_TRUE(group.allGather(std::as_bytes(std::span(mine)),
                                    std::as_writable_bytes(std::span(all))));
        for (int rank = 0; rank < group.size(); ++rank) {
          const auto from = all.begin() + static_cast<std::ptrdiff_t>(count) * rank;
          ASSERT_EQ(std::vector<float>(from, from + static_cast<std::ptrdiff_t>(count)),
                    floatsOf(rank, count));
        }
      }
    });
  }
}

TEST(Group, TheSameInputsGiveTheSameBits) {
  const auto reduced = [] {
    std::vector<float> result;
    runOnHosts("abcab", Compression::kNone, [&](TwoLevelGroup& group) {
      auto data = floatsOf(group.rank(), 1'500'003);
      ASSERT_TRUE(group.allReduce(data, 0));
      if (group.rank() == 0) result = data;
    });
    return result;
  };
  const auto first = reduced();
  EXPECT_EQ(first.size(), 1'500'003u);
  EXPECT_EQ(first, reduced());
}

TEST(Group, AloneTalksToNobody) {
  auto group = joinGroup({.timeout = Duration(100)});
  ASSERT_TRUE(group);
  std::vector<float> data(1000, 3.0F);
  ASSERT_TRUE((*group)->allReduce(data));
  EXPECT_EQ(data[0], 3.0F);
  std::vector<float> copy(1000);
  ASSERT_TRUE(
      (*group)->allGather(std::as_bytes(std::span(data)), std::as_writable_bytes(std::span(copy))));
  EXPECT_EQ(copy, data);
  EXPECT_TRUE((*group)->barrier());
  EXPECT_EQ((*group)->hosts(), 1);
  EXPECT_EQ((*group)->traffic().network_bytes, 0);
  EXPECT_EQ((*group)->traffic().memory_bytes, 0);
  EXPECT_EQ((*group)->traffic().operations, 4);  // with the barrier of the joining
}

}  // namespace
}  // namespace dure::group
