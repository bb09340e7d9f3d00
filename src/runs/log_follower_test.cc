#include "runs/log_follower.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include <fmt/core.h>

namespace dure::runs {
namespace {

class LogFollowers : public testing::Test {
 protected:
  ~LogFollowers() override { static_cast<void>(removeTree(paths_.directory)); }
  void print(int generation, int rank, const std::string& bytes) {
    ASSERT_TRUE(makeDirectories(paths_.logs(generation)));
    std::ofstream(paths_.log(generation, rank), std::ios::app | std::ios::binary) << bytes;
  }
  // What one poll hands on: "generation/rank:lines".
  static std::string poll(LogFollower& follower, bool last = false) {
    std::string seen;
    follower.poll(last, [&](int generation, int rank, std::string_view lines) {
      EXPECT_TRUE(lines.ends_with('\n'));
      seen += fmt::format("{}/{}:{}", generation, rank, lines);
    });
    return seen;
  }

 private:
  static std::string make() {
    std::string name = testing::TempDir() + "dure-logs-XXXXXX";
    return mkdtemp(name.data());
  }

 protected:
  const RunPaths paths_{make()};
};

TEST_F(LogFollowers, OnlyWholeLinesAreHandedOnAndEachOnce) {
  LogFollower follower(paths_, {});
  EXPECT_EQ(poll(follower), "");
  print(1, 0, "one\ntw");
  EXPECT_EQ(poll(follower), "1/0:one\n");
  EXPECT_EQ(poll(follower), "");
  print(1, 0, "o");
  EXPECT_EQ(poll(follower), "");
  print(1, 0, "\nthree\nfo");
  EXPECT_EQ(poll(follower), "1/0:two\nthree\n");
  EXPECT_EQ(poll(follower, true), "1/0:fo\n") << "the last call hands on the rest";
  EXPECT_EQ(poll(follower, true), "");
}

TEST_F(LogFollowers, GenerationsAndRanksComeInOrderOfTheirNumbers) {
  for (const int generation : {10, 2, 1}) {
    for (const int rank : {10, 9, 0}) print(generation, rank, "x\n");
  }
  LogFollower follower(paths_, {});
  EXPECT_EQ(poll(follower),
            "1/0:x\n1/9:x\n1/10:x\n2/0:x\n2/9:x\n2/10:x\n10/0:x\n10/9:x\n10/10:x\n");
}

TEST_F(LogFollowers, RanksAndGenerationsThatComeLaterAreFound) {
  LogFollower follower(paths_, {});
  print(1, 0, "a\n");
  EXPECT_EQ(poll(follower), "1/0:a\n");
  print(1, 1, "b\n");
  print(2, 0, "c\n");
  EXPECT_EQ(poll(follower), "1/1:b\n2/0:c\n");
}

TEST_F(LogFollowers, OneRankOrGenerationMayBeAskedFor) {
  for (const int generation : {1, 2}) {
    for (const int rank : {0, 1, 10}) print(generation, rank, "x\n");
  }
  LogFollower rank(paths_, {.rank = 1, .generation = {}});
  EXPECT_EQ(poll(rank), "1/1:x\n2/1:x\n");
  LogFollower generation(paths_, {.rank = {}, .generation = 2});
  EXPECT_EQ(poll(generation), "2/0:x\n2/1:x\n2/10:x\n");
  LogFollower both(paths_, {.rank = 10, .generation = 1});
  EXPECT_EQ(poll(both), "1/10:x\n");
  LogFollower none(paths_, {.rank = 7, .generation = {}});
  EXPECT_EQ(poll(none, true), "");
}

TEST_F(LogFollowers, LinesOfAnyLengthAndByteComeThrough) {
  const std::string longest(1'000'000, 'x');
  const std::string odd("\0\xff\r", 3);
  print(1, 0, longest + "\n" + odd + "\n");
  std::string seen;
  LogFollower(paths_, {}).poll(false, [&](int, int, std::string_view lines) { seen += lines; });
  EXPECT_TRUE(seen == longest + "\n" + odd + "\n") << seen.size();
}

TEST_F(LogFollowers, TheNewestGenerationIsTheHighestNumber) {
  EXPECT_FALSE(LogFollower::newestGeneration(paths_));
  for (const int generation : {1, 10, 9}) print(generation, 0, "x\n");
  EXPECT_EQ(LogFollower::newestGeneration(paths_), 10);
}

TEST_F(LogFollowers, StrangeFilesArePassedOver) {
  print(1, 0, "x\n");
  ASSERT_TRUE(makeDirectories(paths_.directory + "/logs/1.old"));
  std::ofstream(paths_.logs(1) + "/notes.txt") << "mine\n";
  LogFollower follower(paths_, {});
  EXPECT_EQ(poll(follower, true), "1/0:x\n");
}

TEST(LogFollowerLimits, MoreLogsThanDescriptorsAreStillAllShown) {
  std::string directory = testing::TempDir() + "dure-logs-XXXXXX";
  const RunPaths paths{mkdtemp(directory.data())};
  ASSERT_TRUE(makeDirectories(paths.logs(1)));
  constexpr int kRanks = 100;
  for (int rank = 0; rank < kRanks; ++rank) std::ofstream(paths.log(1, rank)) << "x\n";
  const pid_t child = fork();
  if (child == 0) {
    const rlimit limit{.rlim_cur = 50, .rlim_max = 50};
    setrlimit(RLIMIT_NOFILE, &limit);
    int seen = 0;
    LogFollower(paths, {}).poll(true, [&](int, int, std::string_view) { ++seen; });
    _exit(seen == kRanks ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(removeTree(paths.directory));
}

}  // namespace
}  // namespace dure::runs
