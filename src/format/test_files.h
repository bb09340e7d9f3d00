#pragma once

// What the tests of file formats share: the golden files, and ways to damage them.

#include <gtest/gtest.h>
#include <zlib.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "format/dataset_source.h"
#include "format/mapped_file.h"

namespace dure::format {

inline std::string goldenPath(const std::string& name) {
  return std::string(DURE_TESTDATA) + "/" + name;
}

inline std::string golden(const std::string& name) {
  auto text = readFile(goldenPath(name), 1u << 24u);
  EXPECT_TRUE(text) << name;
  return text ? *text : "";
}

// The text in a buffer that ends where it ends, so that a sanitizer sees a read beyond it.
inline FileBytes asFile(std::string_view content, const std::string& name = "a-file") {
  auto buffer = std::make_shared<std::vector<std::byte>>(content.size());
  if (!content.empty()) std::memcpy(buffer->data(), content.data(), content.size());
  return {.name = name, .bytes = *buffer, .owner = buffer};
}

// The content cut off after each number of bytes but all.
inline void eachCut(const std::string& content,
                    const std::function<void(const std::string&)>& check) {
  for (std::size_t size = 0; size < content.size(); ++size) {
    SCOPED_TRACE("cut to " + std::to_string(size));
    check(content.substr(0, size));
    if (testing::Test::HasFatalFailure()) return;
  }
}

// The content with one bit of each byte turned over, a different one from byte to byte. The fuzz
// targets do the rest.
inline void eachFlip(const std::string& content,
                     const std::function<void(const std::string&)>& check) {
  std::string damaged = content;
  for (std::size_t i = 0; i < content.size(); ++i) {
    damaged[i] = static_cast<char>(damaged[i] ^ static_cast<char>(1u << (i * 3 % 8)));
    check(damaged);
    damaged[i] = content[i];
  }
}

// A directory of its own for each test.
class FormatTest : public testing::Test {
 protected:
  ~FormatTest() override { static_cast<void>(removeTree(directory_)); }
  const std::string& directory() const { return directory_; }
  std::string path(const std::string& name) const { return directory_ + "/" + name; }
  std::string write(const std::string& name, std::string_view content) const {
    std::ofstream(path(name), std::ios::binary) << content;
    return path(name);
  }

 private:
  static std::string make() {
    std::string name = testing::TempDir() + "dure-format-XXXXXX";
    return mkdtemp(name.data());
  }
  const std::string directory_ = make();
};

template <typename T>
std::vector<T> valuesOf(const Array& array) {
  std::vector<T> values(static_cast<std::size_t>(array.elements()));
  EXPECT_EQ(sizeof(T), sizeOf(array.dtype));
  if (!values.empty()) std::memcpy(values.data(), array.data, array.bytes());
  return values;
}

inline std::vector<double> numbersOf(const Array& array) {
  std::vector<double> numbers;
  for (std::int64_t i = 0; i < array.elements(); ++i) {
    numbers.push_back(numberAt(array, i));
  }
  return numbers;
}

// Every sample of a split, or why they cannot be read.
struct Everything {
  std::vector<double> samples;
  std::vector<double> labels;
  std::string error;
};

inline Everything readEverything(const Split& split) {
  Everything all;
  std::vector<std::int64_t> rows(static_cast<std::size_t>(split.size()));
  std::iota(rows.begin(), rows.end(), 0);
  Array samples = makeArray(split.sampleType(), [&] {
    std::vector<std::int64_t> shape = {split.size()};
    shape.insert(shape.end(), split.sampleShape().begin(), split.sampleShape().end());
    return shape;
  }());
  all.labels.resize(rows.size());
  const auto samples_read = split.readSamples(rows, writableData(samples));
  const auto labels_read = split.readLabels(rows, all.labels.data());
  if (!samples_read) all.error = samples_read.error().message();
  if (!labels_read) all.error = labels_read.error().message();
  all.samples = numbersOf(samples);
  return all;
}

// As gzip writes it: one member of a file that may have several.
inline std::string gzipped(const std::string& text) {
  std::string out(compressBound(text.size()) + 64, '\0');
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

// 0, 1, 2, …
inline std::vector<double> counting(std::size_t count) {
  std::vector<double> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

}  // namespace dure::format
