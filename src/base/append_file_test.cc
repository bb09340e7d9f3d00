#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "base/files.h"

namespace dure {
namespace {

class AppendFiles : public testing::Test {
 protected:
  ~AppendFiles() override { static_cast<void>(removeTree(directory_)); }
  // What is left of `content` after opening the file and appending a line.
  std::string reopened(const std::string& content) const {
    std::ofstream(path_, std::ios::binary) << content;
    auto file = AppendFile::open(path_);
    EXPECT_TRUE(file);
    EXPECT_TRUE(file->append("next\n"));
    return *readFile(path_, 1u << 26u);
  }

 private:
  static std::string make() {
    std::string name = testing::TempDir() + "dure-append-XXXXXX";
    return mkdtemp(name.data());
  }
  const std::string directory_ = make();

 protected:
  const std::string path_ = directory_ + "/lines";
};

TEST_F(AppendFiles, KeepWhatIsThereAndGrow) {
  {
    auto file = AppendFile::open(path_);
    ASSERT_TRUE(file);
    EXPECT_TRUE(file->append("one\n"));
    EXPECT_TRUE(file->sync());
  }
  auto file = AppendFile::open(path_);
  ASSERT_TRUE(file);
  EXPECT_TRUE(file->append("two\n"));
  EXPECT_EQ(*readFile(path_, 100), "one\ntwo\n");
}

TEST_F(AppendFiles, ALineThatACrashCutIsTakenAway) {
  EXPECT_EQ(reopened("one\ntwo\nthr"), "one\ntwo\nnext\n");
  EXPECT_EQ(reopened("only half a line"), "next\n");
  EXPECT_EQ(reopened(""), "next\n");
  EXPECT_EQ(reopened("\n"), "\nnext\n");
  EXPECT_EQ(reopened("whole\n"), "whole\nnext\n");
}

TEST_F(AppendFiles, AnyLengthOfTheTornLineIsTakenAway) {
  for (const std::size_t torn : {4094u, 4095u, 4096u, 4097u, 8192u, 100'000u}) {
    EXPECT_EQ(reopened("one\n" + std::string(torn, 'x')), "one\nnext\n") << torn;
    EXPECT_EQ(reopened(std::string(torn, 'x')), "next\n") << torn;
  }
}

TEST_F(AppendFiles, CutAnywhereOnlyTheLastLineIsLost) {
  const std::string content = "first\nsecond\nthird\n";
  for (std::size_t size = 0; size <= content.size(); ++size) {
    const std::string cut = content.substr(0, size);
    const std::size_t whole = cut.rfind('\n') == std::string::npos ? 0 : cut.rfind('\n') + 1;
    EXPECT_EQ(reopened(cut), cut.substr(0, whole) + "next\n") << size;
  }
}

TEST_F(AppendFiles, OneThatCannotBeOpenedSaysWhichAndWhy) {
  const auto file = AppendFile::open(path_ + "/below");
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().message(), "open " + path_ + "/below: No such file or directory");
}

TEST_F(AppendFiles, WhatFailedHalfwayDoesNotSpoilTheNextLine) {
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    auto file = AppendFile::open(path_);
    if (!file || !file->append("one\n")) _exit(1);
    rlimit limit{};
    getrlimit(RLIMIT_FSIZE, &limit);
    const rlimit small{.rlim_cur = 6, .rlim_max = limit.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
    if (file->append("two\n")) _exit(2);
    setrlimit(RLIMIT_FSIZE, &limit);
    _exit(file->append("three\n") ? 0 : 3);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(*readFile(path_, 100), "one\nthree\n");
}

}  // namespace
}  // namespace dure
