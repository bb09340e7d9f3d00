#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "format/array.h"

// What becomes of the same numbers of several models. Pure: the same numbers give the same result,
// bit for bit.
namespace dure::average {

enum class Method { kMean, kMedian, kTrimmed };

// How one number of each model becomes one.
struct Rule {
  Method method = Method::kMean;
  std::vector<double> weights;  // of the models, with kMean; empty: they are equal
  int trim = 1;                 // of the smallest and of the largest each, with kTrimmed
};

// Numbers of one type that lie side by side, in this machine's byte order or the other.
struct Numbers {
  const std::byte* data = nullptr;
  bool swapped = false;
};

// All as doubles, in this machine's order.
void toDoubles(format::DType type, Numbers from, std::span<double> out);
// Rounded to the type, to the nearest, and to even between two.
void fromDoubles(format::DType type, std::span<const double> from, bool swapped, std::byte* out);

// Combines `out.size()` numbers of each model, floats of `type`, by the rule. Gives the index of
// the first number that is not finite in one of the models, if there is one; `out` is of no use
// then.
std::optional<std::size_t> combine(const Rule& rule, format::DType type,
                                   std::span<const Numbers> models, std::span<double> out);

// The variance of several populations taken together, from the variance and the mean of each (the
// law of total variance): the mean of the variances plus the variance of the means.
std::optional<std::size_t> combineVariances(const Rule& rule, format::DType type,
                                            std::span<const Numbers> variances,
                                            std::span<const Numbers> means, std::span<double> out);

}  // namespace dure::average
