#include "serve/model_store.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>

#include <fmt/core.h>

#include "serve/test_model.h"

namespace dure::serve {
namespace {

namespace fs = std::filesystem;
using Loaded = Result<std::shared_ptr<const Model>>;

class ModelStoreTest : public testing::Test {
 protected:
  ModelStoreTest() : folder_(fs::path(testing::TempDir()) / fmt::format("store_{}", getpid())) {
    fs::create_directories(folder_);
  }
  ~ModelStoreTest() override { fs::remove_all(folder_); }

  void writeCheckpoint(int step) const {
    fs::create_directory(folder_ / fmt::format("step-{:08}", step));
  }

  const fs::path folder_;
};

TEST_F(ModelStoreTest, TakesUpCheckpointsThatComeFasterThanTheyLoad) {
  writeCheckpoint(0);
  std::atomic<int> loads = 0;
  const ModelStore store(
      {{"net", folder_}},
      [&](const std::string&) -> Loaded {
        writeCheckpoint(++loads);
        return std::shared_ptr<const Model>(std::make_shared<FakeModel>());
      },
      Duration(1), [](const std::string&) {});
  while (loads < 5) std::this_thread::yield();
  ASSERT_TRUE(store.ready());
  EXPECT_GE(store.find("net")->version, 3);
}

TEST_F(ModelStoreTest, ReadsAgainWhatWasWrittenWhileItWasRead) {
  const fs::path file = folder_ / "net.h5";
  std::ofstream(file) << "half";
  std::atomic<int> loads = 0;
  const ModelStore store(
      {{"net", file}},
      [&](const std::string&) -> Loaded {
        if (++loads == 1) std::ofstream(file, std::ios::app) << "whole";
        return std::shared_ptr<const Model>(std::make_shared<FakeModel>());
      },
      Duration(1), [](const std::string&) {});
  while (!store.ready()) std::this_thread::yield();
  EXPECT_EQ(loads, 2);
  EXPECT_EQ(store.find("net")->version, 1);
}

}  // namespace
}  // namespace dure::serve
