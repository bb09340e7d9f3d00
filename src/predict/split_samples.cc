#include "predict/split_samples.h"

#include <algorithm>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "format/batch_rows.h"
#include "serve/word_index.h"

namespace dure::predict {

Status SplitSamples::check() const {
  const serve::ModelInfo& info = model_.info();
  if (info.words && format::isFloat(split_.sampleType())) {
    return Error(Code::kInvalid,
                 fmt::format("the model takes numbers of words, and the samples are {}",
                             format::dtypeName(split_.sampleType())));
  }
  if (info.any_shape) return {};
  const auto wanted = format::checkedElements(info.shape);
  if (wanted && *wanted == split_.sampleElements()) return {};
  return Error(
      Code::kInvalid,
      fmt::format("the model takes samples of shape [{}], and those of the data are of shape [{}]",
                  fmt::join(info.shape, ", "), fmt::join(split_.sampleShape(), ", ")));
}

Result<LabelledBatch> SplitSamples::read(std::span<const std::int64_t> rows) const {
  const serve::ModelInfo& info = model_.info();
  auto raw = format::readRows(split_, rows);
  if (!raw) return std::move(raw).error();
  std::vector<std::int64_t> shape{static_cast<std::int64_t>(rows.size())};
  const auto& sample = info.any_shape ? split_.sampleShape() : info.shape;
  shape.insert(shape.end(), sample.begin(), sample.end());
  LabelledBatch batch;
  if (info.words) {
    batch.samples = at::empty(shape, at::kLong);
    const std::int64_t known =
        info.vocabulary > 0 ? info.vocabulary : std::numeric_limits<std::int64_t>::max();
    format::toWords(*raw, known, std::min(serve::WordIndex::kUnknown, known - 1),
                    batch.samples.data_ptr<std::int64_t>());
  } else {
    batch.samples = at::empty(shape);
    auto made =
        format::toFloats(split_, rows, *raw, model_.scaling(), batch.samples.data_ptr<float>());
    if (!made) return std::move(made).error();
  }
  batch.labels = std::move(raw->labels);
  return batch;
}

}  // namespace dure::predict
