#include "train/model_output.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/files.h"

namespace dure::train {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class ModelOutputTest : public testing::Test {
 protected:
  ModelOutputTest() {
    std::string name = testing::TempDir() + "output-XXXXXX";
    root_ = mkdtemp(name.data());
    here_.output = root_ + "/out/model.h5";
    here_.run_id = "aaaa-bbbb";
    here_.generation = 2;
    std::filesystem::create_directories(root_ + "/out");
  }
  ~ModelOutputTest() override { std::filesystem::remove_all(root_); }

  static Status allow() { return {}; }
  static ModelOutput::Save save(const std::string& content) {
    return [content](const std::string& path) { return replaceFile(path, content); };
  }
  // What a writer that was killed leaves.
  void leave(const std::string& name) const {
    std::filesystem::create_directories(root_ + "/out/" + name);
    EXPECT_TRUE(replaceFile(root_ + "/out/" + name + "/model.h5", "half"));
  }
  std::vector<std::string> there() const { return listDirectory(root_ + "/out"); }
  std::string model() const { return *readFile(here_.output, 100); }

  std::string root_;
  RankEnvironment here_;
};

TEST_F(ModelOutputTest, RemovesWhatKilledWritersLeftAndNothingElse) {
  leave("model.h5.aaaabbbb-1-0123456789abcdef.tmp");  // of an earlier generation
  leave("model.h5.ccccdddd-7-0123456789abcdef.tmp");  // of another run, which is dead
  leave("other.h5.aaaabbbb-1-0123456789abcdef.tmp");
  for (const char* name : {"model.h5.4711.0.tmp", "model.h5.backup.tmp", "model.h5.tmp"})
    ASSERT_TRUE(replaceFile(root_ + "/out/" + name, "x"));
  ASSERT_TRUE(ModelOutput(here_).write(save("whole"), allow));
  EXPECT_EQ(model(), "whole");
  EXPECT_THAT(there(), ElementsAre("model.h5", "model.h5.backup.tmp", "model.h5.tmp",
                                   "other.h5.aaaabbbb-1-0123456789abcdef.tmp"));
}

TEST_F(ModelOutputTest, LeavesAnotherRunsWriterThatLives) {
  const std::string name = "model.h5.ccccdddd-1-0123456789abcdef.tmp";
  leave(name);
  int ready[2];
  int leave_now[2];
  ASSERT_EQ(pipe(ready) + pipe(leave_now), 0);
  const pid_t other = fork();
  if (other == 0) {
    const auto lock = FileLock::acquire(root_ + "/out/" + name + "/lock");
    char byte = lock ? 'y' : 'n';
    (void)!::write(ready[1], &byte, 1);
    close(leave_now[1]);
    (void)!::read(leave_now[0], &byte, 1);
    _exit(0);
  }
  char byte = 'n';
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  ASSERT_EQ(byte, 'y');
  EXPECT_TRUE(ModelOutput(here_).write(save("whole"), allow));
  EXPECT_THAT(there(), ElementsAre("model.h5", name));
  for (const int end : {ready[0], ready[1], leave_now[0], leave_now[1]}) close(end);
  waitpid(other, nullptr, 0);
}

TEST_F(ModelOutputTest, AnOlderGenerationIsRefused) {
  ASSERT_TRUE(replaceFile(here_.output, "before"));
  leave("model.h5.aaaabbbb-3-0123456789abcdef.tmp");
  EXPECT_EQ(ModelOutput(here_).write(save("older"), allow).error().code(), Code::kConflict);
  EXPECT_EQ(model(), "before");
  std::filesystem::remove_all(root_ + "/out/model.h5.aaaabbbb-3-0123456789abcdef.tmp");
  const auto taken = [] { return Status(Error(Code::kConflict, "taken")); };
  EXPECT_EQ(ModelOutput(here_).write(save("older"), taken).error().message(), "taken");
  EXPECT_EQ(model(), "before");
  EXPECT_THAT(there(), ElementsAre("model.h5"));
}

// A later generation comes while this one writes, and removes what it writes to.
TEST_F(ModelOutputTest, AnOlderGenerationThatIsOvertakenIsRefused) {
  const auto overtaken = [&] {
    RankEnvironment later = here_;
    later.generation = 3;
    return ModelOutput(later).write(save("newer"), allow);
  };
  EXPECT_FALSE(ModelOutput(here_).write(save("older"), overtaken));
  EXPECT_EQ(model(), "newer");
  EXPECT_THAT(there(), ElementsAre("model.h5"));
}

TEST_F(ModelOutputTest, WhatFailsNamesTheOutputAndLeavesNothing) {
  const auto failed = ModelOutput(here_).write(
      [](const std::string& path) {
        EXPECT_TRUE(replaceFile(path + ".part", "half"));
        return Error(Code::kIo, "write " + path + ": No space left on device");
      },
      allow);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().message(), "write " + here_.output + ": No space left on device");
  EXPECT_THAT(there(), ElementsAre());
}

TEST_F(ModelOutputTest, KeepsTheModelInTheFirstPlaceThatTakesIt) {
  here_.checkpoint = root_ + "/checkpoints";
  here_.directory = root_ + "/task";
  std::filesystem::create_directories(here_.directory);
  const auto fails = [&](const std::string& path) {
    return path.starts_with(here_.checkpoint) ? Status(Error(Code::kIo, "full"))
                                              : replaceFile(path, "kept");
  };
  EXPECT_EQ(*ModelOutput(here_).keepElsewhere(fails), here_.directory + "/model.h5");
  std::filesystem::create_directories(here_.checkpoint);
  EXPECT_EQ(*ModelOutput(here_).keepElsewhere(save("kept")), here_.checkpoint + "/model.h5");
  here_.checkpoint = here_.directory = "";
  ASSERT_EQ(setenv("TMPDIR", root_.c_str(), 1), 0);
  const auto kept = ModelOutput(here_).keepElsewhere(save("kept"));
  unsetenv("TMPDIR");
  ASSERT_TRUE(kept);
  EXPECT_THAT(*kept, HasSubstr(root_ + "/dure-model-"));
  EXPECT_EQ(*readFile(*kept, 100), "kept");
}

}  // namespace
}  // namespace dure::train
