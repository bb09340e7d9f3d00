#include "average/combine.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>

namespace dure::average {
namespace {

using format::DType;

constexpr std::size_t kFew = 4096;  // numbers that stay in the nearest cache as doubles

template <typename T>
T loadNumber(const std::byte* at, bool swapped) {
  T value;
  std::memcpy(&value, at, sizeof value);
  if (!swapped) return value;
  if constexpr (sizeof(T) == 4) {
    return std::bit_cast<T>(__builtin_bswap32(std::bit_cast<std::uint32_t>(value)));
  } else if constexpr (sizeof(T) == 8) {
    return std::bit_cast<T>(__builtin_bswap64(std::bit_cast<std::uint64_t>(value)));
  }
  return value;
}

// The nearest number with `fraction_bits` bits behind the point, of those that a type with the
// smallest exponent `least` has; halves go to the even one.
std::uint16_t roundToHalf(double value, int fraction_bits, int exponent_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const auto sign = static_cast<std::uint16_t>(std::signbit(value) ? 0x8000 : 0);
  const double size = std::fabs(value);
  const auto infinite = static_cast<std::uint16_t>(((1 << exponent_bits) - 1) << fraction_bits);
  if (!(size <= std::ldexp(2.0, bias))) return sign | infinite;
  if (size == 0) return sign;
  const int exponent = std::max(std::ilogb(size), 1 - bias);
  // Beyond the largest of this exponent it carries into the next, which is what is wanted.
  const auto scaled =
      static_cast<std::uint32_t>(std::nearbyint(std::ldexp(size, fraction_bits - exponent)));
  const std::uint32_t bits =
      (static_cast<std::uint32_t>(exponent + bias - 1) << fraction_bits) + scaled;
  return static_cast<std::uint16_t>(sign | std::min<std::uint32_t>(bits, infinite));
}

template <typename T>
void addWeighted(Numbers from, double weight, std::span<double> sums) {
  if (!from.swapped) {
    for (std::size_t i = 0; i < sums.size(); ++i) {
      T value;
      std::memcpy(&value, from.data + i * sizeof(T), sizeof value);
      sums[i] += weight * static_cast<double>(value);
    }
    return;
  }
  for (std::size_t i = 0; i < sums.size(); ++i) {
    sums[i] += weight * static_cast<double>(loadNumber<T>(from.data + i * sizeof(T), true));
  }
}

void addTo(DType type, Numbers from, double weight, std::span<double> sums) {
  if (type == DType::kF32) return addWeighted<float>(from, weight, sums);
  if (type == DType::kF64) return addWeighted<double>(from, weight, sums);
  std::vector<double> numbers(sums.size());
  toDoubles(type, from, numbers);
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += weight * numbers[i];
}

double totalWeight(const Rule& rule, std::size_t models) {
  if (rule.weights.empty()) return static_cast<double>(models);
  return std::accumulate(rule.weights.begin(), rule.weights.end(), 0.0);
}

double weightOf(const Rule& rule, std::size_t model) {
  return rule.weights.empty() ? 1.0 : rule.weights[model];
}

bool leavesOut(const Rule& rule) {
  return std::find(rule.weights.begin(), rule.weights.end(), 0.0) != rule.weights.end();
}

bool allFinite(std::span<const double> numbers) {
  double sum = 0;  // 0 × infinity and 0 × NaN are NaN
  for (const double number : numbers) sum += number * 0.0;
  return sum == 0;
}

std::optional<std::size_t> firstNonFinite(DType type, std::span<const Numbers> models,
                                          std::size_t count) {
  std::vector<double> numbers(count);
  std::optional<std::size_t> first;
  for (const Numbers& model : models) {
    toDoubles(type, model, numbers);
    const auto found = std::find_if(numbers.begin(), numbers.end(),
                                    [](double number) { return !std::isfinite(number); });
    if (found == numbers.end()) continue;
    const auto index = static_cast<std::size_t>(found - numbers.begin());
    first = std::min(first.value_or(index), index);
  }
  return first;
}

Numbers further(const Numbers& numbers, std::size_t bytes) {
  return {numbers.data + bytes, numbers.swapped};
}

std::vector<Numbers> allFurther(std::span<const Numbers> models, std::size_t bytes) {
  std::vector<Numbers> moved;
  for (const Numbers& each : models) moved.push_back(further(each, bytes));
  return moved;
}

void meanOf(const Rule& rule, DType type, std::span<const Numbers> models, std::span<double> out) {
  std::fill(out.begin(), out.end(), 0.0);
  for (std::size_t model = 0; model < models.size(); ++model) {
    // A model without weight has no say, not even with an infinite number.
    if (weightOf(rule, model) == 0) continue;
    addTo(type, models[model], weightOf(rule, model), out);
  }
  const double total = totalWeight(rule, models.size());
  for (double& sum : out) sum /= total;
}

// The middle of the numbers that are left when `trim` of each end are dropped.
double middleOf(std::span<double> sorted, Method method, int trim) {
  std::sort(sorted.begin(), sorted.end());
  const std::size_t count = sorted.size();
  if (method == Method::kMedian) {
    return count % 2 != 0 ? sorted[count / 2] : sorted[count / 2 - 1] / 2 + sorted[count / 2] / 2;
  }
  const auto kept =
      sorted.subspan(static_cast<std::size_t>(trim), count - 2 * static_cast<std::size_t>(trim));
  return std::accumulate(kept.begin(), kept.end(), 0.0) / static_cast<double>(kept.size());
}

void middlesOf(const Rule& rule, DType type, std::span<const Numbers> models,
               std::span<double> out) {
  std::vector<std::vector<double>> numbers(models.size(), std::vector<double>(out.size()));
  for (std::size_t model = 0; model < models.size(); ++model) {
    toDoubles(type, models[model], numbers[model]);
  }
  std::vector<double> each(models.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    for (std::size_t model = 0; model < models.size(); ++model) each[model] = numbers[model][i];
    out[i] = middleOf(each, rule.method, rule.trim);
  }
}

}  // namespace

void toDoubles(DType type, Numbers from, std::span<double> out) {
  if (type == DType::kF32 && !from.swapped) {
    for (std::size_t i = 0; i < out.size(); ++i) {
      float value;
      std::memcpy(&value, from.data + i * sizeof value, sizeof value);
      out[i] = value;
    }
    return;
  }
  const format::Array view{.dtype = type,
                           .shape = {static_cast<std::int64_t>(out.size())},
                           .data = from.data,
                           .owner = nullptr,
                           .swapped = from.swapped};
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = format::numberAt(view, static_cast<std::int64_t>(i));
  }
}

void fromDoubles(DType type, std::span<const double> from, bool swapped, std::byte* out) {
  const std::size_t width = format::sizeOf(type);
  for (std::size_t i = 0; i < from.size(); ++i) {
    std::byte* const at = out + i * width;
    if (type == DType::kF32) {
      const auto value = static_cast<float>(from[i]);
      std::memcpy(at, &value, sizeof value);
    } else if (type == DType::kF64) {
      std::memcpy(at, &from[i], sizeof from[i]);
    } else {
      const std::uint16_t value =
          type == DType::kF16 ? roundToHalf(from[i], 10, 5) : roundToHalf(from[i], 7, 8);
      std::memcpy(at, &value, sizeof value);
    }
  }
  if (swapped) format::swapBytes(out, from.size(), width);
}

std::optional<std::size_t> combine(const Rule& rule, DType type, std::span<const Numbers> models,
                                   std::span<double> out) {
  const std::size_t width = format::sizeOf(type);
  for (std::size_t begin = 0; begin < out.size(); begin += kFew) {
    const auto part = out.subspan(begin, std::min(kFew, out.size() - begin));
    const auto here = allFurther(models, begin * width);
    if (rule.method == Method::kMean) {
      meanOf(rule, type, here, part);
      // A number that is not finite leaves its mark on every sum; the search is for that case only.
      if (allFinite(part) && !leavesOut(rule)) continue;
    }
    if (const auto found = firstNonFinite(type, here, part.size()); found) return begin + *found;
    if (rule.method != Method::kMean) middlesOf(rule, type, here, part);
  }
  return std::nullopt;
}

std::optional<std::size_t> combineVariances(const Rule& rule, DType type,
                                            std::span<const Numbers> variances,
                                            std::span<const Numbers> means, std::span<double> out) {
  if (const auto found = combine(rule, type, variances, out); found) return found;
  if (rule.method != Method::kMean) return std::nullopt;
  std::vector<double> mean(out.size());
  // Whoever combines the means says where one of them is not finite.
  if (combine(rule, type, means, mean)) return std::nullopt;
  std::vector<double> one(out.size());
  std::vector<double> spread(out.size());
  for (std::size_t model = 0; model < means.size(); ++model) {
    toDoubles(type, means[model], one);
    for (std::size_t i = 0; i < one.size(); ++i) {
      const double off = one[i] - mean[i];
      spread[i] += weightOf(rule, model) * off * off;
    }
  }
  const double total = totalWeight(rule, means.size());
  for (std::size_t i = 0; i < out.size(); ++i) out[i] += spread[i] / total;
  return std::nullopt;
}

}  // namespace dure::average
