#include "train/checkpoint_store.h"

#include <gmock/gmock.h>

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>

#include "base/files.h"
#include "base/process.h"

namespace dure::train {
namespace {

using testing::HasSubstr;

class CheckpointStoreTest : public testing::Test {
 protected:
  CheckpointStoreTest() {
    std::string name = testing::TempDir() + "checkpoints-XXXXXX";
    root_ = mkdtemp(name.data());
  }
  ~CheckpointStoreTest() override { std::filesystem::remove_all(root_); }

  CheckpointStore open(const std::string& run_id = "id-1", int generation = 1) const {
    auto store = CheckpointStore::open(root_ + "/here", {.run = "run.1",
                                                         .run_id = run_id,
                                                         .generation = generation,
                                                         .token = randomToken().substr(0, 16)});
    EXPECT_TRUE(store) << store.error().message();
    return *store;
  }

  static Status tryToWrite(const CheckpointStore& store, std::int64_t step,
                           const std::string& content) {
    const auto staged = store.stage(step);
    EXPECT_TRUE(staged);
    EXPECT_FALSE(CheckpointStore::isSealed(*staged, "a"));
    EXPECT_TRUE(
        CheckpointStore::write(*staged, "a", [&](const Sink& sink) { return sink(content); }));
    EXPECT_TRUE(CheckpointStore::isSealed(*staged, "a"));
    return store.publish({.step = step, .world = 2, .files = {"a"}});
  }
  static void write(const CheckpointStore& store, std::int64_t step, const std::string& content) {
    const auto written = tryToWrite(store, step, content);
    ASSERT_TRUE(written) << written.error().message();
  }

  // Instead of the file: opened well, and every read fails with EIO.
  void failToRead(const std::string& name) const {
    std::filesystem::rename(path(name), path(name) + ".good");
    std::filesystem::create_symlink("/proc/self/mem", path(name));
  }
  void letRead(const std::string& name) const {
    std::filesystem::rename(path(name) + ".good", path(name));
  }

  std::string path(const std::string& name) const { return root_ + "/here/" + name; }

  std::string root_;
};

TEST_F(CheckpointStoreTest, TheNewestWholeOneIsFound) {
  CheckpointStore store = open();
  EXPECT_FALSE(store.findNewest()->found);
  ASSERT_TRUE(store.begin());
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
  ASSERT_TRUE(store.begin());
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
  ASSERT_TRUE(store.begin());
  for (const std::int64_t step : {1, 2, 3, 4}) write(store, step, "x");
  const auto staged = store.stage(5);
  ASSERT_TRUE(staged);
  EXPECT_THAT(*staged, testing::EndsWith(".part"));
  ASSERT_TRUE(replaceFile(path("current.json.0123456789abcdef.tmp"), "half a note"));
  EXPECT_EQ(store.findNewest()->found->manifest.step, 4);
  ASSERT_TRUE(store.clean());
  EXPECT_FALSE(fileExists(*staged));
  ASSERT_TRUE(store.prune(2));
  EXPECT_EQ(listDirectory(root_ + "/here"),
            (std::vector<std::string>{"current.copy.json", "current.json", "step-0000000003",
                                      "step-0000000004"}));
}

TEST_F(CheckpointStoreTest, ANewTrainingDoesNotSeeTheOldOne) {
  CheckpointStore store = open();
  ASSERT_TRUE(store.begin());
  write(store, 100, "old");
  ASSERT_TRUE(store.finish());
  EXPECT_TRUE(store.findNewest()->finished);
  ASSERT_TRUE(store.begin());
  EXPECT_FALSE(store.findNewest()->found);
  EXPECT_TRUE(fileExists(path("step-0000000100"))) << "it stays until there is a new one";
  write(store, 10, "new");
  ASSERT_TRUE(store.prune(3));
  EXPECT_FALSE(fileExists(path("step-0000000100")));
  EXPECT_EQ(store.findNewest()->found->manifest.step, 10);
}

TEST_F(CheckpointStoreTest, SaysWhichRunEndedATraining) {
  CheckpointStore store = open();
  ASSERT_TRUE(store.begin());
  write(store, 100, "x");
  EXPECT_EQ(store.findNewest()->run_id, "id-1");
  EXPECT_FALSE(store.findNewest()->finished);
  // Of the same name and number, since the first was removed.
  CheckpointStore second = open("id-2", 3);
  ASSERT_TRUE(second.resume(*second.findNewest()));
  ASSERT_TRUE(second.finish());
  const auto search = store.findNewest();
  EXPECT_TRUE(search->finished);
  EXPECT_EQ(search->run, "run.1");
  EXPECT_EQ(search->run_id, "id-2");
  EXPECT_EQ(search->generation, 3);
  const std::string manifest = *readFile(path("step-0000000100/manifest.json"), 1 << 20);
  EXPECT_THAT(manifest, HasSubstr("\"run_id\": \"id-1\""));
}

// Whatever happens to the note of which training it is, checkpoints are not taken for none.
TEST_F(CheckpointStoreTest, ADamagedNoteIsNoNewTraining) {
  CheckpointStore store = open();
  ASSERT_TRUE(store.begin());
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
  ASSERT_TRUE(store.begin());
  for (const std::int64_t step : {260, 280, 300}) write(store, step, "x");
  std::ofstream(path("step-0000000300/a")) << "y";
  std::ofstream(path("step-0000000280/a")) << "y";
  const auto search = store.findNewest();
  ASSERT_TRUE(search && search->found);
  EXPECT_EQ(search->found->manifest.step, 260);
  ASSERT_TRUE(store.resume(*search));
  write(store, 270, "x");
  ASSERT_TRUE(store.prune(2));
  EXPECT_TRUE(fileExists(path("step-0000000260")));
  EXPECT_TRUE(fileExists(path("step-0000000270")));
  EXPECT_EQ(store.findNewest()->found->manifest.step, 270);
}

// An older generation that is not dead after all, behind a partition for example.
TEST_F(CheckpointStoreTest, WhoeverTookTheDirectoryLastFencesTheOthers) {
  CheckpointStore older = open("id-1", 1);
  ASSERT_TRUE(older.begin());
  write(older, 100, "older");
  CheckpointStore newer = open("id-1", 2);
  ASSERT_TRUE(*newer.isOfOlderGeneration());
  ASSERT_TRUE(newer.resume(*newer.findNewest()));
  EXPECT_FALSE(*newer.isOfOlderGeneration());
  for (const std::int64_t step : {100, 200}) {
    const auto refused = tryToWrite(older, step, "of the older one");
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), Code::kConflict);
    EXPECT_THAT(refused.error().message(), HasSubstr("generation 2 of this run writes to"));
  }
  EXPECT_EQ(older.prune(0).error().code(), Code::kConflict);
  EXPECT_EQ(older.finish().error().code(), Code::kConflict);
  EXPECT_EQ(*readFile(path("step-0000000100/a"), 100), "older");
  EXPECT_FALSE(newer.findNewest()->finished);
  write(newer, 200, "newer");
  EXPECT_EQ(newer.findNewest()->found->manifest.step, 200);

  CheckpointStore other = open("id-2", 1);
  ASSERT_TRUE(other.begin());
  EXPECT_EQ(tryToWrite(newer, 300, "x").error().code(), Code::kExists);
}

// Both write the same step at the same time, file by file.
TEST_F(CheckpointStoreTest, TwoWritersDoNotMix) {
  CheckpointStore older = open("id-1", 1);
  ASSERT_TRUE(older.begin());
  write(older, 1, "x");
  CheckpointStore newer = open("id-1", 2);
  ASSERT_TRUE(newer.resume(*newer.findNewest()));
  const auto put = [](const CheckpointStore& store, const std::string& file,
                      const std::string& content) {
    const auto staged = store.stage(100);
    ASSERT_TRUE(staged);
    const auto written =
        CheckpointStore::write(*staged, file, [&](const Sink& sink) { return sink(content); });
    ASSERT_TRUE(written) << written.error().message();
  };
  put(older, "a", "older a");
  put(newer, "a", "newer a");
  put(newer, "b", "newer b");
  put(older, "b", "older b");
  EXPECT_FALSE(older.publish({.step = 100, .files = {"a", "b"}}));
  ASSERT_TRUE(newer.publish({.step = 100, .files = {"a", "b"}}));
  EXPECT_FALSE(older.publish({.step = 100, .files = {"a", "b"}}));
  EXPECT_EQ(newer.findNewest()->found->manifest.step, 100);
  EXPECT_EQ(*readFile(path("step-0000000100/a"), 100), "newer a");
  EXPECT_EQ(*readFile(path("step-0000000100/b"), 100), "newer b");
}

// Without ids, as an older Dure wrote it.
TEST_F(CheckpointStoreTest, ADirectoryWithoutIdsIsOfAnotherRun) {
  CheckpointStore store = open("");
  ASSERT_TRUE(store.begin());
  write(store, 100, "x");
  ASSERT_TRUE(store.finish());
  const nlohmann::json old = {
      {"training", store.findNewest()->training}, {"finished", true}, {"run", "run.1"}};
  for (const char* name : {"current.json", "current.copy.json"})
    ASSERT_TRUE(replaceFile(path(name), withChecksum("current", old, -1)));
  CheckpointStore second = open("", 2);
  const auto search = second.findNewest();
  ASSERT_TRUE(search && search->found);
  EXPECT_EQ(search->run_id, "");
  EXPECT_FALSE(*second.isOfOlderGeneration());
  EXPECT_EQ(second.checkTaken().error().code(), Code::kExists);
}

// What cannot be read now says nothing about what it is.
TEST_F(CheckpointStoreTest, AReadErrorIsNoDamageAndLosesNothing) {
  CheckpointStore store = open();
  ASSERT_TRUE(store.begin());
  for (const std::int64_t step : {1, 2, 3}) write(store, step, "x");
  const auto all = listDirectory(root_ + "/here");
  for (const char* name : {"step-0000000003/a", "step-0000000003/manifest.json", "current.json"}) {
    failToRead(name);
    const auto search = store.findNewest();
    ASSERT_FALSE(search) << name;
    EXPECT_EQ(search.error().code(), Code::kIo) << name;
    EXPECT_THAT(search.error().message(), HasSubstr("Input/output error"));
    letRead(name);
  }
  failToRead("step-0000000002/manifest.json");
  ASSERT_TRUE(store.prune(1));
  EXPECT_FALSE(fileExists(path("step-0000000001"))) << "superseded for certain";
  letRead("step-0000000002/manifest.json");
  EXPECT_EQ(listDirectory(root_ + "/here").size(), all.size() - 1);
  // Found out before resume, which then removes nothing of it.
  std::ofstream(path("step-0000000003/a")) << "y";
  failToRead("step-0000000002/a");
  EXPECT_FALSE(store.findNewest());
  letRead("step-0000000002/a");
  const auto search = store.findNewest();
  EXPECT_EQ(search->found->manifest.step, 2);
  ASSERT_TRUE(store.resume(*search));
  EXPECT_FALSE(fileExists(path("step-0000000003")));
  EXPECT_TRUE(fileExists(path("step-0000000002")));
}

// The same by rights, as an ordinary user.
TEST_F(CheckpointStoreTest, WhatThisUserMayNotReadIsNotRemoved) {
  {
    CheckpointStore store = open();
    ASSERT_TRUE(store.begin());
    for (const std::int64_t step : {1, 2, 3}) write(store, step, "x");
  }
  const auto code = [&](const std::function<int()>& work) {
    const pid_t child = fork();
    if (child == 0) {
      if (geteuid() == 0 && setuid(65534) != 0) _exit(99);
      _exit(work());
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };
  std::filesystem::permissions(root_, std::filesystem::perms::all);
  std::filesystem::permissions(root_ + "/here", std::filesystem::perms::all);
  const auto search = [&] {
    const auto found = open("id-2").findNewest();
    return found ? 0 : 10 + static_cast<int>(found.error().code());
  };
  ASSERT_EQ(code(search), 0);
  const int denied = 10 + static_cast<int>(Code::kDenied);
  for (const char* name :
       {"step-0000000003/a", "step-0000000003/manifest.json", "step-0000000003", "current.json"}) {
    std::filesystem::permissions(path(name), std::filesystem::perms::none);
    EXPECT_EQ(code(search), denied) << name;
    std::filesystem::permissions(path(name), std::filesystem::perms::all);
  }
}

// Nobody takes part in a lock that he may not open; to go ahead would be to write beside its
// holder.
TEST_F(CheckpointStoreTest, ALockThatIsDeniedIsAnError) {
  const CheckpointStore store = open();
  ASSERT_TRUE(*store.lock(Duration(0)));
  std::filesystem::permissions(root_, std::filesystem::perms::all);
  std::filesystem::permissions(root_ + "/here", std::filesystem::perms::all);
  const pid_t child = fork();
  if (child == 0) {
    std::filesystem::permissions(path("lock"), std::filesystem::perms::none);
    if (geteuid() == 0 && setuid(65534) != 0) _exit(99);
    const auto lock = store.lock(Duration(0));
    _exit(!lock && lock.error().code() == Code::kInvalid ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

// A mistake, which trying again would not mend.
TEST_F(CheckpointStoreTest, ADirectoryThatCannotBeWrittenIsInvalid) {
  std::filesystem::create_directories(root_ + "/here");
  std::filesystem::permissions(root_, std::filesystem::perms::all);
  std::filesystem::permissions(root_ + "/here", std::filesystem::perms::owner_read);
  const pid_t child = fork();
  if (child == 0) {
    if (geteuid() == 0 && setuid(65534) != 0) _exit(99);
    const auto store = CheckpointStore::open(root_ + "/here", {});
    _exit(!store && store.error().code() == Code::kInvalid ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  std::filesystem::permissions(root_ + "/here", std::filesystem::perms::all);
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
}  // namespace dure::train
