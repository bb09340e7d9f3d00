#include "format/array_split.h"

#include <algorithm>
#include <cstring>

#include <fmt/core.h>
#include <fmt/ranges.h>

namespace dure::format {
namespace {

class ArraySplit : public SourceSplit {
 public:
  ArraySplit(std::string samples_name, Array samples, std::string name, Array labels,
             ArrayNames named)
      : named_(std::move(named)),
        samples_name_(std::move(samples_name)),
        name_(std::move(name)),
        samples_(std::move(samples)),
        labels_(std::move(labels)),
        size_(labels_.shape[0]) {}

  Status begin() {
    std::vector<std::int64_t> shape(samples_.shape.begin() + 1, samples_.shape.end());
    if (shape.empty()) shape.push_back(1);
    return setSamples(samples_.dtype, std::move(shape));
  }

  std::int64_t size() const override { return size_; }
  std::string name() const override { return name_; }
  std::string whereIs(std::int64_t row) const override {
    return samples_name_ + ": " + rowName(row);
  }
  bool integerLabels() const override { return !isFloat(labels_.dtype); }

  SplitArrays arrays() const override {
    return {.samples = named_.samples,
            .labels = named_.labels,
            .sample_shape = {samples_.shape.begin() + 1, samples_.shape.end()},
            .label_type = labels_.dtype,
            .label_shape = {labels_.shape.begin() + 1, labels_.shape.end()}};
  }

  Status readSamples(std::span<const std::int64_t> rows, std::byte* out) const override {
    if (auto in_range = checkRows(rows); !in_range) return in_range;
    const std::size_t bytes = sampleBytes();
    if (bytes == 0) return {};
    for (const std::int64_t row : rows) {
      std::memcpy(out, samples_.data + static_cast<std::size_t>(row) * bytes, bytes);
      if (samples_.swapped) {
        const std::size_t width = sizeOf(sampleType());
        swapBytes(out, bytes / width, width);
      }
      out += bytes;
    }
    return {};
  }

  Status readLabels(std::span<const std::int64_t> rows, double* out) const override {
    if (auto in_range = checkRows(rows); !in_range) return in_range;
    for (const std::int64_t row : rows) *out++ = numberAt(labels_, row);
    return {};
  }

 private:
  const ArrayNames named_;
  const std::string samples_name_;
  const std::string name_;  // that of the labels
  const Array samples_;
  const Array labels_;
  const std::int64_t size_;
};

}  // namespace

Result<std::unique_ptr<SourceSplit>> makeArraySplit(const std::string& samples_name, Array samples,
                                                    const std::string& labels_name, Array labels,
                                                    const ArrayNames& named) {
  const bool one_each =
      labels.shape.size() == 1 || (labels.shape.size() == 2 && labels.shape[1] == 1);
  if (!one_each) {
    return Error(Code::kInvalid,
                 fmt::format("{}: labels have the shape ({}), not one number per sample",
                             labels_name, fmt::join(labels.shape, ", ")));
  }
  if (samples.shape.empty() || samples.shape[0] != labels.shape[0]) {
    return Error(Code::kInvalid, fmt::format("{} has {} samples but {} has {} labels", samples_name,
                                             samples.shape.empty() ? 0 : samples.shape[0],
                                             labels_name, labels.shape[0]));
  }
  auto split = std::make_unique<ArraySplit>(samples_name, std::move(samples), labels_name,
                                            std::move(labels), named);
  if (auto begun = split->begin(); !begun) return std::move(begun).error().during(samples_name);
  return std::unique_ptr<SourceSplit>(std::move(split));
}

}  // namespace dure::format
