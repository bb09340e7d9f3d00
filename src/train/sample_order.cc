#include "train/sample_order.h"

#include <algorithm>
#include <utility>

namespace dure::train {
namespace {

constexpr int kRounds = 4;

}  // namespace

SampleOrder::SampleOrder(std::uint64_t seed, std::int64_t rows, std::int64_t global_batch)
    : seed_(seed), rows_(rows), global_batch_(global_batch), half_bits_(1) {
  while ((std::int64_t{1} << (2 * half_bits_)) < rows_) ++half_bits_;
}

std::int64_t SampleOrder::stepsPerEpoch() const {
  return (rows_ + global_batch_ - 1) / global_batch_;
}

std::int64_t SampleOrder::rowsInStep(std::int64_t step) const {
  return std::min(global_batch_, rows_ - step * global_batch_);
}

// A Feistel network permutes the numbers of an even count of bits; applying it again to a number
// that is no row keeps it a permutation of the rows. Fewer than 4 in every 5 are skipped.
std::int64_t SampleOrder::rowAt(std::int64_t epoch, std::int64_t place) const {
  const std::uint64_t key = mixBits(seed_, static_cast<std::uint64_t>(epoch));
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  auto number = static_cast<std::uint64_t>(place);
  do {
    std::uint64_t left = number >> half_bits_;
    std::uint64_t right = number & mask;
    for (int round = 0; round < kRounds; ++round) {
      const std::uint64_t mixed = mixBits(key + static_cast<std::uint64_t>(round), right) & mask;
      left = std::exchange(right, left ^ mixed);
    }
    number = (left << half_bits_) | right;
  } while (number >= static_cast<std::uint64_t>(rows_));
  return static_cast<std::int64_t>(number);
}

Share shareOf(std::int64_t rows, int member, int members) {
  const std::int64_t each = rows / members;
  const std::int64_t more = rows % members;
  const std::int64_t begin = member * each + std::min<std::int64_t>(member, more);
  return {begin, begin + each + (member < more ? 1 : 0)};
}

}  // namespace dure::train
