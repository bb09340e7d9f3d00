#include "train/data_fingerprint.h"

#include <gtest/gtest.h>

#include <cstring>

namespace dure::train {
namespace {

// Rows of four floats: the row's number, but for one that may be changed. Counts what is read.
class NumberedRows : public format::Split {
 public:
  explicit NumberedRows(std::int64_t size, std::int64_t changed = -1, double label = 0)
      : size_(size), changed_(changed), label_(label) {
    EXPECT_TRUE(setSamples(format::DType::kF32, {2, 2}));
  }
  std::int64_t size() const override { return size_; }
  std::string whereIs(std::int64_t row) const override { return std::to_string(row); }
  Status readSamples(std::span<const std::int64_t> rows, std::byte* out) const override {
    for (const std::int64_t row : rows) {
      ++read_;
      const float number = row == changed_ ? -1.0f : static_cast<float>(row);
      for (int i = 0; i < 4; ++i, out += sizeof number) std::memcpy(out, &number, sizeof number);
    }
    return {};
  }
  Status readLabels(std::span<const std::int64_t> rows, double* out) const override {
    for (std::size_t i = 0; i < rows.size(); ++i) out[i] = label_;
    return {};
  }
  std::int64_t read() const { return read_; }

 private:
  const std::int64_t size_;
  const std::int64_t changed_;
  const double label_;
  mutable std::int64_t read_ = 0;
};

nlohmann::json printOf(std::unique_ptr<format::Split> train, std::int64_t classes = 3) {
  format::Dataset dataset;
  dataset.train = std::move(train);
  dataset.classes = classes;
  const auto print = fingerprintOf(dataset);
  return print ? *print : nlohmann::json(print.error().message());
}

TEST(DataFingerprint, OtherDataHasAnother) {
  const auto same = printOf(std::make_unique<NumberedRows>(100));
  EXPECT_EQ(printOf(std::make_unique<NumberedRows>(100)), same);
  EXPECT_EQ(same["train"]["rows"], 100);
  EXPECT_NE(printOf(std::make_unique<NumberedRows>(101)), same);
  EXPECT_NE(printOf(std::make_unique<NumberedRows>(100), 4), same);
  EXPECT_NE(printOf(std::make_unique<NumberedRows>(100, -1, 1)), same) << "other labels";
  for (const std::int64_t row : {0, 1, 57, 99})
    EXPECT_NE(printOf(std::make_unique<NumberedRows>(100, row)), same) << row;
}

TEST(DataFingerprint, IsQuickOnLargeData) {
  format::Dataset dataset;
  auto rows = std::make_unique<NumberedRows>(1'000'000'000'000);
  const NumberedRows& seen = *rows;
  dataset.train = std::move(rows);
  ASSERT_TRUE(fingerprintOf(dataset));
  EXPECT_LE(seen.read(), 1024);
  EXPECT_NE(printOf(std::make_unique<NumberedRows>(1'000'000'000'000, 999'999'999'999)),
            *fingerprintOf(dataset))
      << "the last row is among them";
}

}  // namespace
}  // namespace dure::train
