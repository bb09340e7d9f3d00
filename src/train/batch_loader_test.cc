#include "train/batch_loader.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <thread>

namespace dure::train {
namespace {

class BatchLoaderTest : public testing::Test {
 protected:
  void SetUp() override {
    path_ = testing::TempDir() + "loader-" + std::to_string(getpid()) + ".csv";
    std::ofstream file(path_);
    file << "x,label\n";
    for (int row = 0; row < 100; ++row) file << row << ".5," << row % 3 << "\n";
    file.close();
    spec::Train train;
    train.data.path = path_;
    auto data = TrainingData::open(train);
    ASSERT_TRUE(data) << data.error().message();
    data_.emplace(std::move(*data));
  }
  void TearDown() override { unlink(path_.c_str()); }

  const format::Split& split() const { return *data_->dataset().train; }

  std::string path_;
  std::optional<TrainingData> data_;
};

TEST_F(BatchLoaderTest, GivesTheBatchesInOrder) {
  int number = 0;
  BatchLoader loader(*data_, split(), [&]() -> std::optional<std::vector<std::int64_t>> {
    if (number == 10) return std::nullopt;
    const std::int64_t row = number++ * 7;
    return std::vector<std::int64_t>{row, row + 1};
  });
  for (int i = 0; i < 10; ++i) {
    const auto batch = loader.take();
    ASSERT_TRUE(batch);
    EXPECT_EQ(batch->size(), 2);
    EXPECT_EQ(batch->labels[1].item<std::int64_t>(), (i * 7 + 1) % 3);
  }
  EXPECT_FALSE(loader.take());
}

TEST_F(BatchLoaderTest, ReadsOnlyAFewAhead) {
  std::atomic<int> asked = 0;
  BatchLoader loader(*data_, split(), [&]() -> std::optional<std::vector<std::int64_t>> {
    ++asked;
    return std::vector<std::int64_t>{1};
  });
  ASSERT_TRUE(loader.take());
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_LT(asked, 12);
  // And it can be left with batches that nobody took.
}

TEST_F(BatchLoaderTest, ARowThatIsNotThereIsAnError) {
  bool once = false;
  BatchLoader loader(*data_, split(), [&]() -> std::optional<std::vector<std::int64_t>> {
    if (std::exchange(once, true)) return std::nullopt;
    return std::vector<std::int64_t>{100};
  });
  EXPECT_FALSE(loader.take());
}

TEST_F(BatchLoaderTest, WhatIsThrownIsAnErrorAndNotTheEnd) {
  BatchLoader torn(*data_, split(), []() -> std::optional<std::vector<std::int64_t>> {
    throw std::runtime_error("torn");
  });
  const auto batch = torn.take();
  ASSERT_FALSE(batch);
  EXPECT_EQ(batch.error().code(), Code::kIo) << "worth another try";
  EXPECT_EQ(batch.error().message(), "read a batch: torn");
  BatchLoader full(*data_, split(),
                   []() -> std::optional<std::vector<std::int64_t>> { throw std::bad_alloc(); });
  const auto none = full.take();
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code(), Code::kUnavailable);
}

}  // namespace
}  // namespace dure::train
