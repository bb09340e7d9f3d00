#include "train/non_finite.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace dure::train {
namespace {

const char* nameOf(float number) { return std::isnan(number) ? "NaN" : "infinite"; }

// The index of the first that is not finite, or the size.
std::int64_t firstNonFinite(const at::Tensor& numbers) {
  if (numbers.scalar_type() != at::kFloat) return numbers.numel();
  const auto* begin = numbers.data_ptr<float>();
  return std::find_if(begin, begin + numbers.numel(),
                      [](float number) { return !std::isfinite(number); }) -
         begin;
}

}  // namespace

Result<std::string> findNonFinite(const TrainingData& data, std::span<const std::int64_t> rows) {
  const format::Split& split = *data.dataset().train;
  for (const std::int64_t& row : rows) {
    const auto batch = data.read(split, std::span(&row, 1));
    if (!batch) return batch.error();
    if (const auto at = firstNonFinite(batch->samples); at < batch->samples.numel()) {
      return fmt::format("{}: value {} of the sample is {}", split.whereIs(row), at + 1,
                         nameOf(batch->samples.data_ptr<float>()[at]));
    }
    if (firstNonFinite(batch->labels) < batch->labels.numel()) {
      return fmt::format("{}: the label is {}", split.whereIs(row),
                         nameOf(batch->labels.data_ptr<float>()[0]));
    }
  }
  return std::string();
}

}  // namespace dure::train
