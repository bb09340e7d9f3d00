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

// Numbers of 32 bits as numbers of 16, and back. `compression` is not kNone.

// Adds the residual to each value, rounds, and keeps the rounding error as the new residual. Values
// too large for 16-bit floats saturate and leave no residual; infinities and NaN pass.
void compress(Compression compression, std::span<const float> values, std::span<float> residual,
              std::span<std::uint16_t> compressed);
void decompress(Compression compression, std::span<const std::uint16_t> compressed,
                std::span<float> values);
// sums[i] += compressed[i]
void addCompressed(Compression compression, std::span<const std::uint16_t> compressed,
                   std::span<float> sums);

// The rounding error of one stream in a leader, for error feedback.
struct Residual {
  std::vector<float> own;      // of this host's numbers
  std::vector<float> reduced;  // of the part that this host reduces for all
};

// By stream.
using Residuals = std::map<int, Residual>;

std::string writeResiduals(const Residuals& residuals);
// Invalid if it is not something that writeResiduals wrote.
Result<Residuals> readResiduals(std::string_view bytes);

}  // namespace dure::group
