#include "serve/sample_reader.h"

#include <algorithm>
#include <cmath>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "serve/base64.h"
#include "serve/image_input.h"

namespace dure::serve {
namespace {

// Of all pictures of one request: each takes time to unpack, however small it is packed.
constexpr std::int64_t kMostPixelsOfRequest = 80'000'000;

// What float32 counts exactly.
constexpr std::int64_t kMostWords = std::int64_t{1} << 24;

Error invalidSample(std::string sentence) { return Error(Code::kInvalid, std::move(sentence)); }

std::vector<std::int64_t> withoutOnes(std::span<const std::int64_t> shape) {
  std::vector<std::int64_t> made;
  std::copy_if(shape.begin(), shape.end(), std::back_inserter(made),
               [](std::int64_t size) { return size != 1; });
  return made;
}

}  // namespace

bool SampleReader::note(std::size_t level, std::size_t count, bool leaf) {
  if (dims_.size() <= level) dims_.resize(level + 1, -1);
  if (leaf) {
    if (leaf_ == 0) leaf_ = level + 1;
    if (leaf_ != level + 1) ragged_ = true;
  } else if (leaf_ != 0 && level + 1 >= leaf_) {
    ragged_ = true;
  }
  if (dims_[level] == -1) dims_[level] = static_cast<std::int64_t>(count);
  if (dims_[level] != static_cast<std::int64_t>(count)) ragged_ = true;
  return !ragged_;
}

bool SampleReader::readNested(JsonReader& json, std::size_t level) {
  if (!json.beginArray()) return false;
  if (json.peek() != JsonReader::Kind::kArray) {
    bool ended = false;
    const std::size_t count = json.readFloats(out_.numbers, ended);
    return ended && note(level, count, true);
  }
  std::size_t count = 0;
  while (json.nextElement()) {
    if (!readNested(json, level + 1)) return false;
    ++count;
  }
  return !json.failed() && note(level, count, false);
}

Status SampleReader::readInstance(JsonReader& json) {
  switch (json.peek()) {
    case JsonReader::Kind::kArray: {
      dims_.clear();
      leaf_ = 0;
      if (!readNested(json, 0)) {
        if (ragged_) return invalidSample("the lists of a sample must all be of the same length");
        return json.error();
      }
      return finishNumbers(1, dims_);
    }
    case JsonReader::Kind::kNumber: {
      double number = 0;
      if (!json.readNumber(number)) return json.error();
      out_.numbers.push_back(static_cast<float>(number));
      return finishNumbers(1, {});
    }
    case JsonReader::Kind::kString: {
      std::string text;
      if (!json.readString(text)) return json.error();
      return addText(text);
    }
    case JsonReader::Kind::kObject:
      return readObject(json);
    default:
      json.fail("a list of numbers, a text, or {\"b64\": …} is expected");
      return json.error();
  }
}

Status SampleReader::readObject(JsonReader& json) {
  std::string key;
  int fields = 0;
  for (json.beginObject(); json.nextKey(key);) {
    if (++fields > 1) return invalidSample("the model has one input, and a sample names more");
    if (key == "b64") {
      std::string text;
      if (!json.readString(text)) return json.error();
      const auto bytes = decodeBase64(text);
      if (!bytes) return Error(bytes.error()).during("b64");
      if (auto added = addBytes(*bytes); !added) return added;
    } else if (json.peek() == JsonReader::Kind::kObject && key.empty()) {
      return invalidSample("an input must have a name");
    } else if (auto read = readInstance(json); !read) {
      return read;
    }
  }
  if (json.failed()) return json.error();
  if (fields == 0) return invalidSample("a sample is an empty object");
  return {};
}

Status SampleReader::readBatch(JsonReader& json) {
  if (json.peek() != JsonReader::Kind::kArray) {
    json.fail("a list of samples is expected");
    return json.error();
  }
  std::int64_t number = 0;
  for (json.beginArray(); json.nextElement(); ++number) {
    if (auto read = readInstance(json); !read) {
      if (json.failed()) return read;
      return std::move(read).error().during(fmt::format("sample {}", number));
    }
  }
  if (json.failed()) return json.error();
  return {};
}

Status SampleReader::addNumbers(std::int64_t rows, std::span<const std::int64_t> shape,
                                std::vector<float> numbers) {
  out_.numbers.insert(out_.numbers.end(), numbers.begin(), numbers.end());
  return finishNumbers(rows, shape);
}

// The numbers of the last `rows` samples are at the end of out_.numbers.
Status SampleReader::finishNumbers(std::int64_t rows, std::span<const std::int64_t> shape) {
  const std::span<const std::int64_t> wanted = info_.any_shape ? out_.shape : info_.shape;
  if (info_.any_shape && out_.rows == 0) {
    out_.shape.assign(shape.begin(), shape.end());
  } else if (!std::ranges::equal(wanted, shape) &&
             (info_.any_shape || withoutOnes(wanted) != withoutOnes(shape))) {
    return invalidSample(
        fmt::format("a sample must be of shape [{}], and this one is of shape [{}]",
                    fmt::join(wanted, ", "), fmt::join(shape, ", ")));
  } else {
    out_.shape.assign(wanted.begin(), wanted.end());
  }
  out_.rows += rows;
  if (!info_.words) return {};
  const std::int64_t words = info_.vocabulary > 0 ? info_.vocabulary : kMostWords;
  for (const float number : out_.numbers) {
    if (!(number == std::floor(number) && number >= 0 && number < static_cast<float>(words))) {
      return invalidSample(fmt::format(
          "{} is not one of the {} words that the model knows, counted from 0", number, words));
    }
    out_.words.push_back(static_cast<std::int64_t>(number));
  }
  out_.numbers.clear();
  return {};
}

Status SampleReader::addText(std::string_view text) {
  if (info_.kind != InputKind::kText)
    return invalidSample("the model takes numbers, and this sample is a text");
  if (info_.index.empty())
    return invalidSample("the model's file has no word index: send the numbers of words");
  appendSample(info_.index.split(text), info_.shape[0], out_.words);
  out_.shape = info_.shape;
  ++out_.rows;
  return {};
}

Status SampleReader::addPicture(std::string_view bytes) {
  if (info_.words || info_.any_shape || info_.shape.size() < 2)
    return invalidSample("the model takes no pictures");
  const auto picture = decodePicture(bytes);
  if (!picture) return picture.error();
  pixels_ += picture->height * picture->width;
  if (pixels_ > kMostPixelsOfRequest)
    return invalidSample(
        fmt::format("the pictures of one request may have {} pixels in all", kMostPixelsOfRequest));
  if (auto added = appendPicture(*picture, info_.shape, out_.numbers); !added) return added;
  out_.shape = info_.shape;
  ++out_.rows;
  return {};
}

Status SampleReader::addBytes(std::string_view bytes) {
  return info_.kind == InputKind::kText ? addText(bytes) : addPicture(bytes);
}

}  // namespace dure::serve
