#include "train/training_data.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/files.h"
#include "train/network.h"

namespace dure::train {
namespace {

constexpr std::int64_t kUnknownWord = 2;  // by the convention of Keras' data sets
// Beyond this a number is a quantity, or damage, unless the job says that there are as many words.
constexpr std::int64_t kMostWords = std::int64_t{1} << 24;

bool nearly(float a, float b) {
  return std::abs(a - b) <= 1e-5F * std::max(std::abs(a), std::abs(b));
}

// What the job says, or else what the model's file does to samples: never both.
Result<format::Scaling> scalingFor(const spec::Train& train, format::DType type,
                                   const std::optional<format::Scaling>& own) {
  const spec::Data& data = train.data;
  const bool said = data.scale > 0 || data.mean != 0 || data.std != 1;
  if (own && !said) return *own;
  const double scale = data.scale > 0 ? data.scale : type == format::DType::kU8 ? 1.0 / 255 : 1;
  const format::Scaling made{.factor = static_cast<float>(scale / data.std),
                             .offset = static_cast<float>(-data.mean / data.std)};
  if (!own) return made;
  if (nearly(own->factor, made.factor) && nearly(own->offset, made.offset)) return *own;
  return Error(Code::kInvalid,
               fmt::format("train.data: {} makes sample × {} + {} of samples, and scale, mean and "
                           "std make it sample × {} + {}; leave them out",
                           train.model.file, own->factor, own->offset, made.factor, made.offset));
}

}  // namespace

Result<TrainingData> TrainingData::open(const spec::Train& train) {
  const spec::Data& wanted = train.data;
  const auto input = inputOf(train.model);
  if (!input) return input.error();
  auto dataset = format::openDataset({.path = wanted.path,
                                      .format = wanted.format,
                                      .train = wanted.train,
                                      .test = wanted.test,
                                      .samples = wanted.samples,
                                      .labels = wanted.labels,
                                      .classes = wanted.classes});
  if (!dataset) return std::move(dataset).error().during("train.data");
  TrainingData data;
  data.dataset_ = std::move(*dataset);
  const format::Split& split = *data.dataset_.train;
  data.shape_.sample = split.sampleShape();
  if (!wanted.shape.empty()) {
    data.shape_.sample.assign(wanted.shape.begin(), wanted.shape.end());
    // What fits has as many numbers, so that a batch of it is no larger than that of the split.
    if (format::checkedElements(data.shape_.sample) != split.sampleElements()) {
      return Error(
          Code::kInvalid,
          fmt::format("train.data.shape: [{}] does not fit samples of shape [{}]",
                      fmt::join(data.shape_.sample, ", "), fmt::join(split.sampleShape(), ", ")));
    }
  }
  data.shape_.classes = data.dataset_.classes;
  data.shape_.words = input->words && !format::isFloat(split.sampleType());
  if (input->words && !data.shape_.words && !train.model.file.empty()) {
    return Error(Code::kInvalid,
                 fmt::format("train.data: {} takes numbers of words, and the samples are {}",
                             train.model.file, format::dtypeName(split.sampleType())));
  }
  const auto scaling = scalingFor(train, split.sampleType(), input->scaling);
  if (!scaling) return scaling.error();
  data.scaling_ = *scaling;
  if (data.shape_.words) {
    data.shape_.vocabulary = input->vocabulary;
    // Where the job itself gives a vocabulary, words beyond it are unknown, and no mistake.
    if (train.model.vocabulary == 0) {
      if (auto checked = data.checkWords(train.model); !checked) {
        return std::move(checked).error().during("train.data");
      }
    }
    if (auto found = data.findWordIndex(wanted.path); !found)
      return std::move(found).error().during("train.data");
  }
  return data;
}

// word_index.json beside the data, or in its folder.
Status TrainingData::findWordIndex(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::path folder =
      fs::is_directory(path, ignored) ? fs::path(path) : fs::path(path).parent_path();
  const std::string file = folder / "word_index.json";
  if (!fileExists(file)) return {};
  auto words = readWordIndex(file, shape_.vocabulary);
  if (!words) return std::move(words).error();
  word_lines_ = *std::move(words);
  return {};
}

// Both splits: no word may be without a vector. Counts them unless the model says how many it
// knows.
Status TrainingData::checkWords(const spec::Model& model) {
  const bool known = shape_.vocabulary > 0;
  const std::int64_t limit = known ? shape_.vocabulary : kMostWords;
  for (const format::Split* split : {dataset_.train.get(), dataset_.test.get()}) {
    if (split == nullptr) continue;
    const auto range = format::scanWords(*split);
    if (!range) return range.error();
    if (range->least < 0) {
      return Error(Code::kInvalid, fmt::format("{}: the word {} is negative; words are counted "
                                               "from 0",
                                               split->whereIs(range->least_row), range->least));
    }
    if (range->most >= limit) {
      const std::string place = split->whereIs(range->most_row);
      return Error(Code::kInvalid,
                   known
                       ? fmt::format("{}: the word {} is beyond the {} that {} knows; "
                                     "train.model.vocabulary: {} would take such words for unknown",
                                     place, range->most, limit, model.file, limit)
                       : fmt::format("{}: the word {} is beyond the {} that can be counted; "
                                     "train.model.vocabulary says how many there are",
                                     place, range->most, limit));
    }
    if (!known) shape_.vocabulary = std::max(shape_.vocabulary, range->most + 1);
  }
  return {};
}

Result<Batch> TrainingData::read(const format::Split& split,
                                 std::span<const std::int64_t> rows) const {
  auto raw = format::readRows(split, rows);
  if (!raw) return std::move(raw).error();
  const auto count = static_cast<std::int64_t>(rows.size());
  std::vector<std::int64_t> shape{count};
  shape.insert(shape.end(), shape_.sample.begin(), shape_.sample.end());
  Batch batch;
  if (shape_.words) {
    batch.samples = at::empty(shape, at::kLong);
    format::toWords(*raw, shape_.vocabulary, std::min(kUnknownWord, shape_.vocabulary - 1),
                    batch.samples.data_ptr<std::int64_t>());
  } else {
    batch.samples = at::empty(shape);
    auto made = format::toFloats(split, rows, *raw, scaling_, batch.samples.data_ptr<float>());
    if (!made) return std::move(made).error();
  }
  const std::vector<double>& labels = raw->labels;
  if (shape_.classes > 0) {
    batch.labels = at::empty({count}, at::kLong);
    std::copy(labels.begin(), labels.end(), batch.labels.data_ptr<std::int64_t>());
  } else {
    batch.labels = at::empty({count});
    std::copy(labels.begin(), labels.end(), batch.labels.data_ptr<float>());
  }
  return batch;
}

ModelAbout TrainingData::about() const {
  return {.sample = shape_.sample,
          .words = shape_.words,
          .vocabulary = shape_.vocabulary,
          .scaling = shape_.words ? format::Scaling() : scaling_,
          .class_names = dataset_.class_names,
          .sample_type = format::dtypeName(dataset_.train->sampleType()),
          .word_lines = word_lines_};
}

}  // namespace dure::train
