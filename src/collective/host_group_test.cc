#include "collective/host_group.h"

#include <gtest/gtest.h>

#include <cstring>

#include "collective/test_members.h"
#include "collective/test_reference.h"

namespace dure::collective {
namespace {

using Bytes = std::vector<std::byte>;

// Numbers that are 0, 1, odd, about a slot, and several slots.
constexpr std::size_t kCounts[] = {0, 1, 777, 16'384, 65'537, 300'001};

// Every operation, against the reference; returns the name of the one that is wrong.
std::string wrongOperation(HostGroup& group, Number number, Reduction reduction,
                           std::size_t count) {
  const auto me = static_cast<std::size_t>(group.member());
  const auto inputs = reference::inputsFor(number, count, group.size());
  const Bytes expected = reference::reduce(number, reduction, inputs);

  Bytes data = inputs[me];
  if (!group.allReduce(data, number, reduction) || data != expected) return "allReduce";

  const int root = group.size() - 1;
  data = inputs[me];
  if (!group.reduce(data, number, reduction, root)) return "reduce";
  if (group.member() == root && data != expected) return "reduce's result";

  data = inputs[me];
  if (!group.broadcast(data, root)) return "broadcast";
  if (data != inputs[static_cast<std::size_t>(root)]) return "broadcast's result";

  Bytes all;
  for (const Bytes& input : inputs) all.insert(all.end(), input.begin(), input.end());
  Bytes gathered(all.size());
  if (!group.allGather(inputs[me], gathered) || gathered != all) return "allGather";

  // Member m's part for member k is what k's input was, so the sum for k is size times that.
  Bytes part(inputs[me].size());
  const std::vector<Bytes> same(static_cast<std::size_t>(group.size()), inputs[me]);
  if (!group.reduceScatter(all, part, number, reduction) ||
      part != reference::reduce(number, reduction, same)) {
    return "reduceScatter";
  }
  return group.barrier() ? "" : "barrier";
}

TEST(HostGroup, EveryNumberAndReduction) {
  for (const int members : {2, 3}) {
    runAsThreads(
        members,
        [](HostGroup& group) {
          for (const Number number : reference::kNumbers) {
            for (const Reduction reduction : reference::kReductions) {
              EXPECT_EQ(wrongOperation(group, number, reduction, 20'001), "")
                  << "number " << static_cast<int>(number);
            }
          }
        },
        16u << 10u);
  }
}

TEST(HostGroup, EverySizeWithOneToFiveMembers) {
  for (int members = 1; members <= 5; ++members) {
    runAsThreads(members, [](HostGroup& group) {
      for (const std::size_t count : kCounts) {
        EXPECT_EQ(wrongOperation(group, Number::kFloat32, Reduction::kSum, count), "")
            << count << " numbers, member " << group.member() << " of " << group.size();
      }
    });
  }
}

TEST(HostGroup, AsProcesses) {
  for (int members = 1; members <= 5; ++members) {
    runAsProcesses(members, [](HostGroup& group) {
      for (const std::size_t count : kCounts) {
        if (!wrongOperation(group, Number::kFloat32, Reduction::kSum, count).empty()) return 1;
      }
      return 0;
    });
  }
}

TEST(HostGroup, ManyOperationsOneAfterAnother) {
  // What is left in a slot by one operation never shows in another.
  runOverOneMapping(3, [](HostGroup& group) {
    for (std::int64_t turn = 0; turn < 2000; ++turn) {
      std::vector<std::int64_t> data(static_cast<std::size_t>(1 + turn % 50 * 400),
                                     turn * (group.member() + 1));
      ASSERT_TRUE(group.allReduce(std::as_writable_bytes(std::span(data)), Number::kInt64,
                                  Reduction::kSum));
      ASSERT_EQ(data.front(), turn * 6);
      ASSERT_EQ(data.back(), turn * 6);
      const int root = static_cast<int>(turn % 3);
      std::int64_t value = group.member() == root ? turn : -1;
      ASSERT_TRUE(group.broadcast(std::as_writable_bytes(std::span(&value, 1)), root));
      ASSERT_EQ(value, turn);
    }
  });
}

TEST(HostGroup, TheSameInputsGiveTheSameBits) {
  // Floats whose sum depends on the order of addition.
  const auto reduced = [] {
    Bytes result;
    runAsThreads(4, [&](HostGroup& group) {
      Bytes data =
          reference::someNumbers(Number::kFloat32, 200'000, static_cast<unsigned>(group.member()));
      EXPECT_TRUE(group.allReduce(data, Number::kFloat32, Reduction::kSum));
      Bytes all(data.size() * 4);
      EXPECT_TRUE(group.allGather(data, all));
      for (std::size_t m = 0; m < 4; ++m) {
        EXPECT_EQ(std::memcmp(all.data() + m * data.size(), data.data(), data.size()), 0);
      }
      if (group.member() == 0) result = data;
    });
    return result;
  };
  EXPECT_EQ(reduced(), reduced());
}

TEST(HostGroup, PartsMayLieInTheWhole) {
  runAsThreads(4, [](HostGroup& group) {
    const auto me = static_cast<std::size_t>(group.member());
    std::vector<float> all(4 * 30'000, static_cast<float>(me + 1));
    const auto bytes = std::as_writable_bytes(std::span(all));
    const auto mine = bytes.subspan(me * 30'000 * sizeof(float), 30'000 * sizeof(float));
    ASSERT_TRUE(group.reduceScatter(bytes, mine, Number::kFloat32, Reduction::kSum));
    ASSERT_TRUE(group.allGather(mine, bytes));
    EXPECT_EQ(all, std::vector<float>(4 * 30'000, 10.0F));
  });
}

TEST(HostGroup, DifferentOperationsAreNoticed) {
  runAsThreads(2, [](HostGroup& group) {
    Bytes data(group.member() == 0 ? 64 : 128);
    const Status status = group.allReduce(data, Number::kFloat32, Reduction::kSum);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().message(),
              "rank 0 and rank 1 do not ask for the same operation with the same size");
    EXPECT_FALSE(group.barrier());
  });
}

}  // namespace
}  // namespace dure::collective
