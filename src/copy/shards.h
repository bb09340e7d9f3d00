#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

// Which row of a data set goes to which shard. Pure: the same arguments give the same shards, on
// every machine.
namespace dure::copy {

// The shard of a row; there are at most 65536.
using ShardNumber = std::uint16_t;
inline constexpr int kMostShards = 1 << 16;

// A shuffled assignment of `rows` rows; the sizes of two shards differ by one row at most.
std::vector<ShardNumber> assignRows(std::int64_t rows, int shards, std::uint64_t seed);

// The same with the rows of each class assigned by themselves: also the rows of one class in two
// shards differ by one at most. `classes` has the class of each row.
std::vector<ShardNumber> assignStratified(std::span<const std::int32_t> classes, int shards,
                                          std::uint64_t seed);

// Random numbers that are the same with every compiler and library.
class Shuffler {
 public:
  explicit Shuffler(std::uint64_t seed) : state_(seed) {}
  // From 0 to below `bound`, which is 1 or more.
  std::uint64_t below(std::uint64_t bound);
  template <typename T>
  void shuffle(std::span<T> values) {
    for (std::size_t left = values.size(); left > 1; --left) {
      std::swap(values[left - 1], values[below(left)]);
    }
  }

 private:
  std::uint64_t state_;
};

}  // namespace dure::copy
