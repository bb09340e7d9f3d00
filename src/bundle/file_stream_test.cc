#include "bundle/file_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "base/files.h"

namespace dure::bundle {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class FileStreams : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "stream-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
  }
  void TearDown() override { fs::remove_all(root_); }

  std::string sent(const fs::path& path) {
    std::string bytes;
    EXPECT_TRUE(sendFiles(path, [&](std::string_view piece) -> Status {
      bytes += piece;
      return {};
    }));
    return bytes;
  }

  fs::path root_;
};

TEST_F(FileStreams, ADirectoryArrivesAsItWasInPiecesOfAnySize) {
  ASSERT_TRUE(makeDirectories(root_ / "from/below"));
  ASSERT_TRUE(replaceFile(root_ / "from/empty", ""));
  ASSERT_TRUE(replaceFile(root_ / "from/run", "#!/bin/sh\n", 0755));
  ASSERT_TRUE(replaceFile(root_ / "from/below/large", std::string(700'000, 'x') + "\n{}\n"));
  fs::create_symlink("/etc/passwd", root_ / "from/link");
  const std::string bytes = sent(root_ / "from");
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, bytes.size()}) {
    const fs::path to = root_ / ("to" + std::to_string(piece));
    FileReceiver files(to);
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
      ASSERT_TRUE(files.take(std::string_view(bytes).substr(at, piece)));
    }
    ASSERT_TRUE(files.finish());
    EXPECT_EQ(files.files(), 3);
    EXPECT_EQ(*readFile(to / "below/large", 1u << 20u),
              *readFile(root_ / "from/below/large", 1u << 20u));
    EXPECT_EQ(*readFile(to / "empty", 10), "");
    EXPECT_EQ(access((to / "run").c_str(), X_OK), 0);
    EXPECT_FALSE(fs::exists(fs::symlink_status(to / "link"))) << "links are not followed";
  }
}

TEST_F(FileStreams, AFileArrivesUnderTheNameItIsGiven) {
  ASSERT_TRUE(replaceFile(root_ / "model.h5", "weights"));
  FileReceiver files(root_ / "home/mine.h5");
  ASSERT_TRUE(files.take(sent(root_ / "model.h5")));
  ASSERT_TRUE(files.finish());
  EXPECT_EQ(*readFile(root_ / "home/mine.h5", 100), "weights");
}

TEST_F(FileStreams, ABrokenConnectionLeavesNoHalfFile) {
  ASSERT_TRUE(replaceFile(root_ / "model.h5", std::string(1000, 'x')));
  const std::string bytes = sent(root_ / "model.h5");
  for (const std::size_t cut : {std::size_t{5}, std::size_t{500}, bytes.size() - 3}) {
    fs::remove_all(root_ / "home");
    {
      FileReceiver files(root_ / "home/model.h5");
      ASSERT_TRUE(files.take(std::string_view(bytes).substr(0, cut)));
      EXPECT_THAT(files.finish().error().message(), HasSubstr("before all files had arrived"));
    }
    EXPECT_FALSE(fs::exists(root_ / "home/model.h5.part"));
    EXPECT_EQ(fs::exists(root_ / "home/model.h5"), cut > 1000) << "whole, or not there";
  }
}

TEST_F(FileStreams, AFileThatWasDamagedOnItsWayIsNotKept) {
  ASSERT_TRUE(replaceFile(root_ / "model.h5", std::string(1000, 'x')));
  std::string bytes = sent(root_ / "model.h5");
  bytes[bytes.find('x') + 500] = 'y';
  {
    FileReceiver files(root_ / "home/model.h5");
    EXPECT_EQ(files.take(bytes).error().code(), Code::kUnavailable);
  }
  EXPECT_TRUE(fs::is_empty(root_ / "home"));
}

TEST_F(FileStreams, NothingLeavesTheTargetWhateverTheOtherSideSays) {
  for (const char* line :
       {R"({"path": "../out", "size": 1})", R"({"path": "/etc/x", "size": 1})",
        R"({"path": "a/../../b", "size": 1})", R"({"path": "a", "size": -1})",
        R"({"path": 7, "size": 1})", R"({"size": 1})", R"({"files": 3})", "[]", "noise"}) {
    FileReceiver files(root_ / "home");
    EXPECT_FALSE(files.take(std::string(line) + "\nx")) << line;
  }
  FileReceiver endless(root_ / "home");
  EXPECT_FALSE(endless.take(std::string(1u << 20u, 'x')));
  EXPECT_FALSE(fs::exists(root_ / "out"));
}

TEST_F(FileStreams, WhatIsNotThereIsSaid) {
  const auto sent = sendFiles(root_ / "nothing", [](std::string_view) { return Status{}; });
  EXPECT_EQ(sent.error().code(), Code::kNotFound);
}

}  // namespace
}  // namespace dure::bundle
