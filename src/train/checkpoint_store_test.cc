#include "train/checkpoint_store.h"

#include <gmock/gmock.h>

#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/files.h"

namespace dure {
namespace {

using testing::HasSubstr;

class CheckpointStoreTest : public testing::Test {
 protected:
  CheckpointStoreTest() {
    std::string name = testing::TempDir() + "checkpoints-XXXXXX";
    root_ = mkdtemp(name.data());
  }
  ~CheckpointStoreTest() override { std::filesystem::remove_all(root_); }

  CheckpointStore open() const {
    auto store = CheckpointStore::open(root_ + "/here");
    EXPECT_TRUE(store) << store.error().message();
    return *store;
  }

  static void write(const CheckpointStore& store, std::int64_t step, const std::string& content) {
    const auto staged = store.stage(step);
    ASSERT_TRUE(staged);
    ASSERT_TRUE(replaceFile(*staged + "/a", content));
    ASSERT_FALSE(CheckpointStore::isSealed(*staged, "a"));
    ASSERT_TRUE(CheckpointStore::seal(*staged, "a"));
    ASSERT_TRUE(CheckpointStore::isSealed(*staged, "a"));
    ASSERT_TRUE(store.publish({.step = step, .world = 2, .files = {"a"}}));
  }

  std::string path(const std::string& name) const { return root_ + "/here/" + name; }

  std::string root_;
};

TEST_F(CheckpointStoreTest, TheNewestWholeOneIsFound) {
  CheckpointStore store = open();
  EXPECT_FALSE(store.findNewest()->found);
  ASSERT_TRUE(store.begin("run.1"));
  write(store, 5, "five");
  write(store, 20, "twenty");
  write(store, 100, "hundred");
  auto search = store.findNewest();
  ASSERT_TRUE(search->found);
  EXPECT_EQ(search->found->manifest.step, 100);
  EXPECT_EQ(search->found->manifest.world, 2);

  std::ofstream(path("step-0000000100/a")) << "hundreD";
  std::filesystem::remove(path("step-0000000020/manifest.json"));
  search = store.findNewest();
  ASSERT_TRUE(search->found);
  EXPECT_EQ(search->found->manifest.step, 5);
  ASSERT_EQ(search->passed_over.size(), 2u);
  EXPECT_THAT(search->passed_over[0], HasSubstr("checksum is wrong"));
  EXPECT_THAT(search->passed_over[1], HasSubstr("No such file"));
}

// Cutting or changing any byte of the manifest is noticed.
TEST_F(CheckpointStoreTest, ADamagedManifestIsNeverBelieved) {
  CheckpointStore store = open();
  ASSERT_TRUE(store.begin("run.1"));
  write(store, 5, "five");
  const std::string file = path("step-0000000005/manifest.json");
  const std::string good = *readFile(file, 1 << 20);
  const auto believed = [&](const std::string& text) {
    EXPECT_TRUE(replaceFile(file, text));
    return store.findNewest()->found;
  };
  ASSERT_TRUE(believed(good));
  // Without the line's end the content is the same.
  for (std::size_t length = 0; length + 2 < good.size(); ++length) {
    ASSERT_FALSE(believed(good.substr(0, length))) << length;
  }
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 1);
    const auto found = believed(bad);
    // A change in the white space is none.
    if (found) {
      ASSERT_EQ(found->manifest.step, 5) << i;
    }
  }
}

TEST_F(CheckpointStoreTest, HalfOnesAreCleanedAndOldOnesPruned) {
  CheckpointStore store = open();
  ASSERT_TRUE(store.begin("run.1"));
  for (const std::int64_t step : {1, 2, 3, 4}) write(store, step, "x");
  ASSERT_TRUE(store.stage(5));
  EXPECT_TRUE(fileExists(path("step-0000000005.part")));
  EXPECT_EQ(store.findNewest()->found->manifest.step, 4);
  ASSERT_TRUE(store.clean());
  EXPECT_FALSE(fileExists(path("step-0000000005.part")));
  ASSERT_TRUE(store.prune(2));
  EXPECT_EQ(listDirectory(root_ + "/here"),
            (std::vector<std::string>{"current.copy.json", "current.json", "step-0000000003",
                                      "step-0000000004"}));
}

TEST_F(CheckpointStoreTest, ANewTrainingDoesNotSeeTheOldOne) {
  CheckpointStore store = open();
  ASSERT_TRUE(store.begin("run.1"));
  write(store, 100, "old");
  ASSERT_TRUE(store.finish("run.1"));
  EXPECT_TRUE(store.findNewest()->finished);
  ASSERT_TRUE(store.begin("run.1"));
  EXPECT_FALSE(store.findNewest()->found);
  EXPECT_TRUE(fileExists(path("step-0000000100"))) << "it stays until there is a new one";
  write(store, 10, "new");
  ASSERT_TRUE(store.prune(3));
  EXPECT_FALSE(fileExists(path("step-0000000100")));
  EXPECT_EQ(store.findNewest()->found->manifest.step, 10);
}

TEST_F(CheckpointStoreTest, SaysWhichRunEndedATraining) {
  CheckpointStore store = open();
  ASSERT_TRUE(store.begin("run.1"));
  write(store, 100, "x");
  EXPECT_EQ(store.findNewest()->run, "run.1");
  ASSERT_TRUE(store.goOn(*store.findNewest()));
  ASSERT_TRUE(store.finish("run.2"));
  EXPECT_TRUE(store.findNewest()->finished);
  EXPECT_EQ(store.findNewest()->run, "run.2");
}

// Whatever happens to the note of which training it is, checkpoints are not taken for none.
TEST_F(CheckpointStoreTest, ADamagedNoteIsNoNewTraining) {
  CheckpointStore store = open();
  ASSERT_TRUE(store.begin("run.1"));
  write(store, 100, "x");
  const std::string good = *readFile(path("current.json"), 1 << 20);
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 1);
    ASSERT_TRUE(replaceFile(path("current.json"), bad));
    const auto search = store.findNewest();
    ASSERT_TRUE(search && search->found) << i << ": the copy is good";
    ASSERT_FALSE(search->finished) << i;
    ASSERT_TRUE(replaceFile(path("current.copy.json"), bad));
    const auto second = store.findNewest();
    // A change in the white space is none.
    if (second) {
      ASSERT_TRUE(second->found && !second->finished) << i;
    } else {
      ASSERT_THAT(second.error().message(), HasSubstr("remove it to begin anew")) << i;
    }
    ASSERT_TRUE(replaceFile(path("current.copy.json"), good));
  }
  std::filesystem::remove(path("current.json"));
  EXPECT_TRUE(store.findNewest()->found);
  std::filesystem::remove(path("current.copy.json"));
  EXPECT_FALSE(store.findNewest());
}

// Of 300 and 280 nothing can be used: they are not two to keep.
TEST_F(CheckpointStoreTest, DamagedOnesAreNotCounted) {
  CheckpointStore store = open();
  ASSERT_TRUE(store.begin("run.1"));
  for (const std::int64_t step : {260, 280, 300}) write(store, step, "x");
  std::ofstream(path("step-0000000300/a")) << "y";
  std::ofstream(path("step-0000000280/a")) << "y";
  const auto search = store.findNewest();
  ASSERT_TRUE(search && search->found);
  EXPECT_EQ(search->found->manifest.step, 260);
  ASSERT_TRUE(store.goOn(*search));
  write(store, 270, "x");
  ASSERT_TRUE(store.prune(2));
  EXPECT_TRUE(fileExists(path("step-0000000260")));
  EXPECT_TRUE(fileExists(path("step-0000000270")));
  EXPECT_EQ(store.findNewest()->found->manifest.step, 270);
}

// Another process may change what the directory is about; what is written stays of this training.
TEST_F(CheckpointStoreTest, WritesForItsOwnTrainingOnly) {
  CheckpointStore store = open();
  ASSERT_TRUE(store.begin("run.1"));
  CheckpointStore other = open();
  ASSERT_TRUE(other.begin("run.2"));
  write(store, 100, "x");
  EXPECT_FALSE(store.findNewest()->found);
}

TEST_F(CheckpointStoreTest, OneRunAtATime) {
  const CheckpointStore store = open();
  int ready[2];
  int leave[2];
  ASSERT_EQ(pipe(ready) + pipe(leave), 0);
  const pid_t other = fork();
  if (other == 0) {
    const auto lock = store.lock(Duration(0));
    char byte = lock && *lock ? 'y' : 'n';
    (void)!::write(ready[1], &byte, 1);
    close(leave[1]);
    (void)!::read(leave[0], &byte, 1);
    _exit(0);
  }
  char byte = 'n';
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_EQ(byte, 'y');
  const auto refused = store.lock(Duration(100));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kExists);
  // It ends while the other waits.
  close(leave[0]);
  close(leave[1]);
  const auto taken = store.lock(Duration(20'000));
  EXPECT_TRUE(taken && *taken);
  waitpid(other, nullptr, 0);
  close(ready[0]);
  close(ready[1]);
}

}  // namespace
}  // namespace dure
