#include "format/batch_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <type_traits>

#include <fmt/core.h>

#include "format/numbers.h"

namespace dure::format {
namespace {

constexpr std::int64_t kBlock = 4096;          // rows, when going through all of them
constexpr std::size_t kScanBytes = 1u << 26u;  // and no more than this at a time

// What is beyond 64 bits with a sign is beyond every vocabulary, too.
template <typename Number>
std::int64_t asWord(Number number) {
  if constexpr (std::is_same_v<Number, std::uint64_t>) {
    constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
    return static_cast<std::int64_t>(std::min(number, kMost));
  } else {
    return static_cast<std::int64_t>(number);
  }
}

// Infinite where a float ends.
template <typename Number>
float asFloat(Number number) {
  if constexpr (std::is_same_v<Number, double>) {
    constexpr double kMost = std::numeric_limits<float>::max();
    if (number > kMost) return std::numeric_limits<float>::infinity();
    if (number < -kMost) return -std::numeric_limits<float>::infinity();
  }
  return static_cast<float>(number);
}

// The first number that is not finite, for people.
Error notFinite(const Split& split, std::span<const std::int64_t> rows, const BatchRows& batch) {
  const auto each = static_cast<std::size_t>(split.sampleElements());
  const std::size_t width = sizeOf(batch.type);
  for (std::size_t i = 0; i < batch.elements(); ++i) {
    const double number = numberAt(batch.type, batch.samples.data() + i * width);
    if (std::isfinite(number) && std::isfinite(asFloat(number))) continue;
    const char* const what = std::isnan(number)   ? "is NaN"
                             : std::isinf(number) ? "is infinite"
                                                  : "is beyond what float32 holds";
    return Error(Code::kInvalid, fmt::format("{}: value {} of the sample {}",
                                             split.whereIs(rows[i / each]), i % each + 1, what));
  }
  return Error(Code::kInvalid,
               "a scaled sample is beyond what float32 holds; see train.data.scale, "
               "mean and std");
}

}  // namespace

Result<BatchRows> readRows(const Split& split, std::span<const std::int64_t> rows) {
  const std::int64_t shape[] = {static_cast<std::int64_t>(rows.size()), split.sampleElements()};
  const auto bytes = checkedBytes(split.sampleType(), shape);
  if (!bytes) {
    return Error(Code::kInvalid, fmt::format("a batch of {} samples of {} numbers is too large",
                                             shape[0], shape[1]));
  }
  BatchRows batch{.type = split.sampleType(),
                  .samples = std::vector<std::byte>(*bytes),
                  .labels = std::vector<double>(rows.size())};
  if (auto read = split.readSamples(rows, batch.samples.data()); !read)
    return std::move(read).error();
  if (auto read = split.readLabels(rows, batch.labels.data()); !read)
    return std::move(read).error();
  return batch;
}

Status toFloats(const Split& split, std::span<const std::int64_t> rows, const BatchRows& batch,
                Scaling scaling, float* out) {
  const std::size_t count = batch.elements();
  withNumbers(batch.type, batch.samples.data(), [&](const auto* number) {
    for (std::size_t i = 0; i < count; ++i) {
      out[i] = asFloat(number[i]) * scaling.factor + scaling.offset;
    }
  });
  if (!isFloat(batch.type)) return {};
  // One pass without a branch: all bits of the exponent are set in what is not finite, only.
  constexpr std::uint32_t kExponent = 0x7f800000;
  bool finite = true;
  for (std::size_t i = 0; i < count; ++i)
    finite &= (std::bit_cast<std::uint32_t>(out[i]) & kExponent) != kExponent;
  if (finite) return {};
  return notFinite(split, rows, batch);
}

void toWords(const BatchRows& batch, std::int64_t vocabulary, std::int64_t unknown,
             std::int64_t* out) {
  withNumbers(batch.type, batch.samples.data(), [&](const auto* number) {
    for (std::size_t i = 0; i < batch.elements(); ++i) {
      const std::int64_t word = asWord(number[i]);
      out[i] = word >= 0 && word < vocabulary ? word : unknown;
    }
  });
}

Result<WordRange> scanWords(const Split& split) {
  WordRange range;
  const auto each = static_cast<std::size_t>(std::max<std::int64_t>(split.sampleElements(), 1));
  const auto fit =
      static_cast<std::int64_t>(kScanBytes / std::max<std::size_t>(split.sampleBytes(), 1));
  const std::int64_t block = std::clamp<std::int64_t>(fit, 1, kBlock);
  for (std::int64_t begin = 0; begin < split.size(); begin += block) {
    std::vector<std::int64_t> rows(static_cast<std::size_t>(std::min(block, split.size() - begin)));
    std::iota(rows.begin(), rows.end(), begin);
    const auto batch = readRows(split, rows);
    if (!batch) return batch.error();
    withNumbers(batch->type, batch->samples.data(), [&](const auto* number) {
      for (std::size_t i = 0; i < batch->elements(); ++i) {
        const std::int64_t word = asWord(number[i]);
        if (word < range.least) {
          range.least = word;
          range.least_row = rows[i / each];
        } else if (word > range.most) {
          range.most = word;
          range.most_row = rows[i / each];
        }
      }
    });
  }
  return range;
}

}  // namespace dure::format
