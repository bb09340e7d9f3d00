#pragma once

#include <cstdint>
#include <vector>

namespace dure::train {

// Which samples are seen when. Each epoch goes through all rows once, in an order that is a
// permutation drawn by (seed, epoch) and computed, not stored: it takes no memory, however large
// the set. A step takes the next `global_batch` rows of that order; who works on which of them is
// said by shareOf. So a worker knows its samples at any step without asking anybody, and a resume,
// on as many workers or not, neither skips nor repeats one.
class SampleOrder {
 public:
  SampleOrder(std::uint64_t seed, std::int64_t rows, std::int64_t global_batch);

  // The last step of an epoch may have fewer rows than the others.
  std::int64_t stepsPerEpoch() const;
  // How many rows the step of an epoch has.
  std::int64_t rowsInStep(std::int64_t step) const;
  // The row at an index of the epoch's order.
  std::int64_t rowAt(std::int64_t epoch, std::int64_t place) const;

 private:
  std::uint64_t seed_;
  std::int64_t rows_;
  std::int64_t global_batch_;
  int half_bits_;  // the permutation is of 2^(2 * half_bits_) numbers, of which some are skipped
};

struct Share {
  std::int64_t begin = 0;  // within the step
  std::int64_t end = 0;
  std::int64_t size() const { return end - begin; }
};

// The part of `rows` that is `member`'s: parts are disjoint, cover everything, and differ by one at
// most.
Share shareOf(std::int64_t rows, int member, int members);

// Mixes bits so that near inputs have nothing in common: what every random choice here is made of.
inline std::uint64_t mixBits(std::uint64_t value) {
  value += 0x9E3779B97F4A7C15u;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9u;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBu;
  return value ^ (value >> 31);
}
inline std::uint64_t mixBits(std::uint64_t a, std::uint64_t b) { return mixBits(mixBits(a) ^ b); }

}  // namespace dure::train
