#include "train/training_data.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include <nlohmann/json.hpp>

#include "train/network.h"
#include "train/shape.h"

namespace dure {
namespace {

constexpr std::int64_t kUnknownWord = 2;  // by the convention of Keras' data sets
constexpr std::int64_t kBlock = 4096;     // rows, when going through all of them
// Beyond this a number is a quantity, or damage, unless the job says that there are as many words.
constexpr std::int64_t kMostWords = std::int64_t{1} << 24;

// Calls `use` with the numbers of `bytes` as what they are.
template <typename Use>
void withNumbers(DType type, const std::byte* bytes, Use use) {
  switch (type) {
    case DType::kBool:
    case DType::kU8:
      return use(reinterpret_cast<const std::uint8_t*>(bytes));
    case DType::kI8:
      return use(reinterpret_cast<const std::int8_t*>(bytes));
    case DType::kU16:
      return use(reinterpret_cast<const std::uint16_t*>(bytes));
    case DType::kI16:
      return use(reinterpret_cast<const std::int16_t*>(bytes));
    case DType::kU32:
      return use(reinterpret_cast<const std::uint32_t*>(bytes));
    case DType::kI32:
      return use(reinterpret_cast<const std::int32_t*>(bytes));
    case DType::kU64:
      return use(reinterpret_cast<const std::uint64_t*>(bytes));
    case DType::kI64:
      return use(reinterpret_cast<const std::int64_t*>(bytes));
    case DType::kF16:
      return use(reinterpret_cast<const c10::Half*>(bytes));
    case DType::kBF16:
      return use(reinterpret_cast<const c10::BFloat16*>(bytes));
    case DType::kF32:
      return use(reinterpret_cast<const float*>(bytes));
    case DType::kF64:
      return use(reinterpret_cast<const double*>(bytes));
  }
}

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

// The smallest and the largest word of some rows, with the first place of each.
struct WordRange {
  std::int64_t least = 0;
  std::int64_t most = -1;
  std::int64_t least_row = 0;
  std::int64_t most_row = 0;
};

Result<WordRange> scanWords(const Split& split) {
  WordRange range;
  std::vector<std::byte> bytes;
  const auto each = static_cast<std::size_t>(elementsOf(split.sampleShape()));
  for (std::int64_t begin = 0; begin < split.size(); begin += kBlock) {
    std::vector<std::int64_t> rows(
        static_cast<std::size_t>(std::min(kBlock, split.size() - begin)));
    std::iota(rows.begin(), rows.end(), begin);
    bytes.resize(rows.size() * each * sizeOf(split.sampleType()));
    if (auto read = split.readSamples(rows, bytes.data()); !read) return std::move(read).error();
    withNumbers(split.sampleType(), bytes.data(), [&](const auto* number) {
      for (std::size_t i = 0; i < rows.size() * each; ++i) {
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

}  // namespace

Result<TrainingData> TrainingData::open(const Train& train) {
  const Data& wanted = train.data;
  const auto input = inputOf(train.model);
  if (!input) return input.error();
  auto dataset = openDataset({.path = wanted.path,
                              .format = wanted.format,
                              .train = wanted.train,
                              .test = wanted.test,
                              .samples = wanted.samples,
                              .labels = wanted.labels,
                              .classes = wanted.classes});
  if (!dataset) return std::move(dataset).error().during("train.data");
  TrainingData data;
  data.dataset_ = std::move(*dataset);
  const Split& split = *data.dataset_.train;
  data.shape_.sample = split.sampleShape();
  if (!wanted.shape.empty()) {
    data.shape_.sample.assign(wanted.shape.begin(), wanted.shape.end());
    if (elementsOf(data.shape_.sample) != elementsOf(split.sampleShape())) {
      return Error(
          Code::kInvalid,
          fmt::format("train.data.shape: [{}] does not fit samples of shape [{}]",
                      fmt::join(data.shape_.sample, ", "), fmt::join(split.sampleShape(), ", ")));
    }
  }
  data.shape_.classes = data.dataset_.classes;
  data.shape_.words = input->words && !isFloat(split.sampleType());
  if (input->words && !data.shape_.words && !train.model.file.empty()) {
    return Error(Code::kInvalid,
                 fmt::format("train.data: {} takes numbers of words, and the samples are {}",
                             train.model.file, dtypeName(split.sampleType())));
  }
  const double scale = wanted.scale > 0                   ? wanted.scale
                       : split.sampleType() == DType::kU8 ? 1.0 / 255
                                                          : 1;
  data.factor_ = static_cast<float>(scale / wanted.std);
  data.offset_ = static_cast<float>(-wanted.mean / wanted.std);
  if (data.shape_.words) {
    data.shape_.vocabulary = input->vocabulary;
    // Where the job itself gives a vocabulary, words beyond it are unknown, and no mistake.
    if (train.model.vocabulary == 0) {
      if (auto checked = data.checkWords(train.model); !checked) {
        return std::move(checked).error().during("train.data");
      }
    }
  }
  return data;
}

// Both splits: no word may be without a vector. Counts them unless the model says how many it
// knows.
Status TrainingData::checkWords(const Model& model) {
  const bool known = shape_.vocabulary > 0;
  const std::int64_t limit = known ? shape_.vocabulary : kMostWords;
  for (const Split* split : {dataset_.train.get(), dataset_.test.get()}) {
    if (split == nullptr) continue;
    const auto range = scanWords(*split);
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

Result<Batch> TrainingData::read(const Split& split, std::span<const std::int64_t> rows) const {
  const auto count = static_cast<std::int64_t>(rows.size());
  const std::int64_t each = elementsOf(shape_.sample);
  std::vector<std::byte> bytes(rows.size() * static_cast<std::size_t>(each) *
                               sizeOf(split.sampleType()));
  if (auto read = split.readSamples(rows, bytes.data()); !read) return std::move(read).error();
  std::vector<double> labels(rows.size());
  if (auto read = split.readLabels(rows, labels.data()); !read) return std::move(read).error();

  std::vector<std::int64_t> shape{count};
  shape.insert(shape.end(), shape_.sample.begin(), shape_.sample.end());
  Batch batch;
  if (shape_.words) {
    batch.samples = at::empty(shape, at::kLong);
    auto* out = batch.samples.data_ptr<std::int64_t>();
    const std::int64_t unknown = std::min(kUnknownWord, shape_.vocabulary - 1);
    withNumbers(split.sampleType(), bytes.data(), [&](const auto* number) {
      for (std::int64_t i = 0; i < count * each; ++i) {
        const std::int64_t word = asWord(number[i]);
        out[i] = word >= 0 && word < shape_.vocabulary ? word : unknown;
      }
    });
  } else {
    batch.samples = at::empty(shape);
    auto* out = batch.samples.data_ptr<float>();
    withNumbers(split.sampleType(), bytes.data(), [&](const auto* number) {
      for (std::int64_t i = 0; i < count * each; ++i) {
        out[i] = static_cast<float>(number[i]) * factor_ + offset_;
      }
    });
  }
  if (shape_.classes > 0) {
    batch.labels = at::empty({count}, at::kLong);
    std::copy(labels.begin(), labels.end(), batch.labels.data_ptr<std::int64_t>());
  } else {
    batch.labels = at::empty({count});
    std::copy(labels.begin(), labels.end(), batch.labels.data_ptr<float>());
  }
  return batch;
}

std::map<std::string, std::string> TrainingData::about() const {
  std::map<std::string, std::string> about{
      {"input_shape", fmt::format("[{}]", fmt::join(shape_.sample, ", "))},
      {"input", shape_.words ? "words" : "numbers"},
      {"input_scale", fmt::format("{}", factor_)},
      {"input_offset", fmt::format("{}", offset_)}};
  if (!dataset_.class_names.empty()) {
    about["classes"] = nlohmann::json(dataset_.class_names).dump();
  }
  return about;
}

}  // namespace dure
