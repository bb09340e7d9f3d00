#include "base/files.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <thread>

namespace dure {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class Files : public testing::Test {
 protected:
  ~Files() override { static_cast<void>(removeTree(directory_)); }
  std::string path(const std::string& name) const { return directory_ + "/" + name; }
  void write(const std::string& name, const std::string& content) const {
    std::ofstream(path(name), std::ios::binary) << content;
  }
  std::string content(const std::string& name) const {
    const auto text = readFile(path(name), 1u << 26u);
    return text ? *text : text.error().message();
  }

 private:
  static std::string make() {
    std::string name = testing::TempDir() + "dure-files-XXXXXX";
    return mkdtemp(name.data());
  }
  const std::string directory_ = make();
};

TEST_F(Files, AreReadUpToTheLimitAndNotBeyond) {
  const std::string bytes("a\0b\n\xff", 5);
  write("five", bytes);
  EXPECT_EQ(*readFile(path("five"), 5), bytes);
  const auto larger = readFile(path("five"), 4);
  ASSERT_FALSE(larger);
  EXPECT_EQ(larger.error().code(), Code::kInvalid);
  EXPECT_THAT(larger.error().message(), HasSubstr("larger than 4 bytes"));
  write("empty", "");
  EXPECT_EQ(*readFile(path("empty"), 0), "");
}

TEST_F(Files, WhatCannotBeReadSaysWhichFileAndWhy) {
  const auto missing = readFile(path("missing"), 10);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code(), Code::kNotFound);
  EXPECT_EQ(missing.error().message(), path("missing") + ": No such file or directory");
  const auto directory = readFile(path("."), 10);
  ASSERT_FALSE(directory);
  EXPECT_EQ(directory.error().code(), Code::kInvalid);
  EXPECT_THAT(directory.error().message(), HasSubstr("is a directory"));
}

TEST_F(Files, PipesAreReadToTheirEndAndLimitedToo) {
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  const auto writeInto = [&](std::size_t bytes) {
    return std::jthread([this, bytes] { write("pipe", std::string(bytes, 'x')); });
  };
  {
    const auto writer = writeInto(200'000);
    EXPECT_EQ(readFile(path("pipe"), 200'000)->size(), 200'000u);
  }
  signal(SIGPIPE, SIG_IGN);
  {
    const auto writer = writeInto(200'000);
    EXPECT_EQ(readFile(path("pipe"), 1000).error().code(), Code::kInvalid);
  }
  signal(SIGPIPE, SIG_DFL);
}

TEST_F(Files, AFileWithoutASizeOfItsOwnIsReadWhole) {
  EXPECT_THAT(*readFile("/proc/self/status", 1u << 20u), HasSubstr("Pid:"));
}

TEST_F(Files, AReplacedFileHasTheNewContentAndMode) {
  write("file", "old");
  ASSERT_TRUE(replaceFile(path("file"), "new", 0600));
  EXPECT_EQ(content("file"), "new");
  struct stat info {};
  ASSERT_EQ(stat(path("file").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777u, 0600u);
  EXPECT_THAT(listDirectory(path(".")), ElementsAre("file"));
}

TEST_F(Files, ReaderNeverSeesHalfOfAReplacedFile) {
  const std::string a(300'000, 'a');
  const std::string b(200'000, 'b');
  ASSERT_TRUE(replaceFile(path("file"), a));
  std::atomic<bool> done = false;
  std::atomic<int> torn = 0;
  std::atomic<int> reads = 0;
  std::jthread reader([&] {
    while (!done || reads < 10) {
      const std::string seen = content("file");
      if (seen != a && seen != b) ++torn;
      ++reads;
    }
  });
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(replaceFile(path("file"), i % 2 == 0 ? b : a));
  done = true;
  reader.join();
  EXPECT_EQ(torn, 0);
}

TEST_F(Files, AFileInAMissingDirectoryIsNotWritten) {
  const Status failed = replaceFile(path("no/file"), "x");
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code(), Code::kNotFound);
  EXPECT_THAT(failed.error().message(), HasSubstr(path("no/file")));
}

TEST_F(Files, NothingIsLeftBesideADirectoryThatCannotBeReplaced) {
  ASSERT_TRUE(makeDirectories(path("taken/inside")));
  EXPECT_FALSE(replaceFile(path("taken"), "x"));
  EXPECT_THAT(listDirectory(path(".")), ElementsAre("taken"));
}

TEST_F(Files, AWriteThatFailsHalfwayLeavesTheOldFileAndNothingElse) {
  write("file", "old");
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{.rlim_cur = 8192, .rlim_max = 8192};
    setrlimit(RLIMIT_FSIZE, &limit);
    _exit(replaceFile(path("file"), std::string(100'000, 'x')) ? 1 : 0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0) << "the write should have failed";
  EXPECT_EQ(content("file"), "old");
  EXPECT_THAT(listDirectory(path(".")), ElementsAre("file"));
}

TEST_F(Files, AFullDiskLeavesTheOldFileAndSaysSo) {
  ASSERT_TRUE(makeDirectories(path("disk")));
  if (mount("none", path("disk").c_str(), "tmpfs", 0, "size=64k") != 0) {
    GTEST_SKIP() << "a full disk needs the right to mount a small one";
  }
  struct Unmount {
    std::string at;
    ~Unmount() { umount2(at.c_str(), MNT_DETACH); }
  } const unmount{path("disk")};
  write("disk/file", "old");
  const Status failed = replaceFile(path("disk/file"), std::string(200'000, 'x'));
  ASSERT_FALSE(failed);
  EXPECT_THAT(failed.error().message(), HasSubstr("No space left"));
  EXPECT_EQ(content("disk/file"), "old");
  EXPECT_THAT(listDirectory(path("disk")), ElementsAre("file"));
  EXPECT_TRUE(replaceFile(path("disk/file"), "new")) << "the space of the failed one is free again";
}

TEST_F(Files, WriteAllGoesOnWhereThePipeTookOnlyAPart) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const Fd in(ends[0]);
  Fd out(ends[1]);
  const std::string bytes(1'000'000, 'x');
  std::string got;
  std::jthread reader([&] {
    char block[1000];
    for (ssize_t n = 0; (n = read(in.get(), block, sizeof block)) > 0;) {
      got.append(block, static_cast<std::size_t>(n));
    }
  });
  EXPECT_TRUE(writeAll(out.get(), bytes));
  out.reset();
  reader.join();
  EXPECT_EQ(got, bytes);
}

TEST_F(Files, WriteAllSaysWhenThereIsNoSpace) {
  const Fd full(open("/dev/full", O_WRONLY | O_CLOEXEC));
  ASSERT_TRUE(full);
  EXPECT_THAT(writeAll(full.get(), "x").error().message(), HasSubstr("No space left"));
}

TEST_F(Files, DirectoriesAreMadeWithAllAboveThem) {
  EXPECT_TRUE(makeDirectories(path("a/b/c")));
  EXPECT_TRUE(makeDirectories(path("a/b/c"))) << "once more is no error";
  EXPECT_TRUE(fileExists(path("a/b/c")));
  EXPECT_TRUE(syncDirectory(path("a/b")));
  EXPECT_FALSE(syncDirectory(path("a/none")));
  write("file", "x");
  EXPECT_THAT(makeDirectories(path("file/below")).error().message(), HasSubstr(path("file/below")));
}

TEST_F(Files, RemoveTreeTakesLinksAwayButNotWhatTheyPointTo) {
  ASSERT_TRUE(makeDirectories(path("kept/inside")));
  write("kept/inside/file", "x");
  ASSERT_TRUE(makeDirectories(path("tree/deep")));
  ASSERT_EQ(symlink(path("kept").c_str(), path("tree/deep/link").c_str()), 0);
  ASSERT_EQ(symlink(path("tree").c_str(), path("alias").c_str()), 0);
  EXPECT_TRUE(removeTree(path("alias")));
  EXPECT_TRUE(fileExists(path("tree/deep")));
  EXPECT_TRUE(removeTree(path("tree")));
  EXPECT_THAT(listDirectory(path(".")), ElementsAre("kept"));
  EXPECT_EQ(content("kept/inside/file"), "x");
  EXPECT_TRUE(removeTree(path("tree"))) << "it is gone already";
}

TEST_F(Files, ListDirectoryIsSortedAndEmptyForWhatIsNotThere) {
  for (const char* name : {"b", "a", ".hidden", "c"}) write(name, "");
  EXPECT_THAT(listDirectory(path(".")), ElementsAre(".hidden", "a", "b", "c"));
  EXPECT_THAT(listDirectory(path("missing")), IsEmpty());
  EXPECT_THAT(listDirectory(path("a")), IsEmpty());
}

TEST(Paths, AbsoluteOnesHaveNoDetours) {
  EXPECT_EQ(absolutePath("/a/./b/../c/"), "/a/c");
  EXPECT_EQ(absolutePath("/"), "/");
  char here[4096];
  ASSERT_NE(getcwd(here, sizeof here), nullptr);
  EXPECT_EQ(absolutePath("."), here);
  EXPECT_EQ(absolutePath("x/y"), std::string(here) + "/x/y");
}

}  // namespace
}  // namespace dure
