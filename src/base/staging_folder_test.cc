#include "base/staging_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <cstdlib>
#include <fstream>

namespace dure {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class StagingFolders : public testing::Test {
 protected:
  ~StagingFolders() override { static_cast<void>(removeTree(directory_)); }

  static std::string make() {
    std::string name = testing::TempDir() + "dure-staging-XXXXXX";
    return mkdtemp(name.data());
  }
  const std::string directory_ = make();
};

TEST_F(StagingFolders, FilesAppearWholeAndNothingStays) {
  {
    const auto staging = StagingFolder::make(directory_ + "/new", "copy");
    ASSERT_TRUE(staging) << staging.error().message();
    std::ofstream(staging->path("a")) << "content";
    std::ofstream(staging->path("b")) << "not kept";
    ASSERT_TRUE(staging->keep("a"));
  }
  EXPECT_THAT(listDirectory(directory_ + "/new"), ElementsAre("a"));
}

TEST_F(StagingFolders, TheNextOneRemovesWhatAKilledMakerLeft) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto staging = StagingFolder::make(directory_, "copy");
    if (!staging || write(ready[1], "x", 1) != 1) _exit(1);
    pause();
    _exit(0);
  }
  char letter = 0;
  ASSERT_EQ(read(ready[0], &letter, 1), 1);
  const auto theirs = listDirectory(directory_);
  ASSERT_EQ(theirs.size(), 1u);
  // While they live, what they are making stays.
  { ASSERT_TRUE(StagingFolder::make(directory_, "copy")); }
  EXPECT_EQ(listDirectory(directory_), theirs);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  // Others' names are left alone.
  { ASSERT_TRUE(StagingFolder::make(directory_, "average")); }
  EXPECT_EQ(listDirectory(directory_), theirs);
  { ASSERT_TRUE(StagingFolder::make(directory_, "copy")); }
  EXPECT_THAT(listDirectory(directory_), IsEmpty());
  close(ready[0]);
  close(ready[1]);
}

}  // namespace
}  // namespace dure
