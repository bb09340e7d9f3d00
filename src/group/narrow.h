#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "group/group.h"

namespace dure::group {

// Numbers of 32 bits as numbers of 16, and back. `wire` is a narrow one.

// Adds to each value what was held back before, rounds, and holds back what the rounding lost. What
// is too large for 16-bit floats becomes the largest of them, and nothing is held back; infinities
// and NaN go through as they are.
void narrowNumbers(Wire wire, std::span<const float> values, std::span<float> held,
                   std::span<std::uint16_t> narrow);
void widenNumbers(Wire wire, std::span<const std::uint16_t> narrow, std::span<float> values);
// sums[i] += narrow[i]
void addNarrow(Wire wire, std::span<const std::uint16_t> narrow, std::span<float> sums);

// What one kind of sum holds back in a leader.
struct HeldBack {
  std::vector<float> mine;    // of this host's numbers
  std::vector<float> summed;  // of the sums that this host computes for all
};

// All of it, by stream.
using Feedback = std::map<int, HeldBack>;

std::string writeFeedback(const Feedback& feedback);
// Invalid if it is not something that writeFeedback wrote.
Result<Feedback> readFeedback(std::string_view bytes);

}  // namespace dure::group
