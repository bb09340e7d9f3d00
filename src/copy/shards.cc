#include "copy/shards.h"

#include <algorithm>
#include <numeric>

namespace dure::copy {

__extension__ using Wide = unsigned __int128;

// SplitMix64, by Steele, Lea and Flood; the high half of a product bounds it without a division.
std::uint64_t Shuffler::below(std::uint64_t bound) {
  state_ += 0x9e3779b97f4a7c15;
  std::uint64_t mixed = state_;
  mixed = (mixed ^ (mixed >> 30u)) * 0xbf58476d1ce4e5b9;
  mixed = (mixed ^ (mixed >> 27u)) * 0x94d049bb133111eb;
  mixed ^= mixed >> 31u;
  return static_cast<std::uint64_t>((static_cast<Wide>(mixed) * bound) >> 64u);
}

std::vector<ShardNumber> assignRows(std::int64_t rows, int shards, std::uint64_t seed) {
  std::vector<ShardNumber> shard_of(static_cast<std::size_t>(rows));
  for (std::size_t row = 0; row < shard_of.size(); ++row) {
    shard_of[row] = static_cast<ShardNumber>(row % static_cast<std::size_t>(shards));
  }
  Shuffler(seed).shuffle(std::span(shard_of));
  return shard_of;
}

std::vector<ShardNumber> assignStratified(std::span<const std::int32_t> classes, int shards,
                                          std::uint64_t seed) {
  const std::int32_t most =
      classes.empty() ? -1 : *std::max_element(classes.begin(), classes.end());
  // The shards in turn for the rows of one class, then on for those of the next, so that what is
  // left over of each class does not all go to the first shards.
  std::vector<std::size_t> begins(static_cast<std::size_t>(most) + 2);
  for (const std::int32_t each : classes) ++begins[static_cast<std::size_t>(each) + 1];
  std::partial_sum(begins.begin(), begins.end(), begins.begin());
  std::vector<ShardNumber> by_class(classes.size());
  for (std::size_t place = 0; place < by_class.size(); ++place) {
    by_class[place] = static_cast<ShardNumber>(place % static_cast<std::size_t>(shards));
  }
  Shuffler shuffler(seed);
  for (std::size_t each = 0; each + 1 < begins.size(); ++each) {
    shuffler.shuffle(std::span(by_class).subspan(begins[each], begins[each + 1] - begins[each]));
  }
  std::vector<ShardNumber> shard_of(classes.size());
  for (std::size_t row = 0; row < shard_of.size(); ++row) {
    shard_of[row] = by_class[begins[static_cast<std::size_t>(classes[row])]++];
  }
  return shard_of;
}

}  // namespace dure::copy
