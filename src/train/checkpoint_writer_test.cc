#include "train/checkpoint_writer.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/files.h"

namespace dure::train {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Two workers: each has a store and a writer of its own, as in two processes.
class CheckpointWriterTest : public testing::Test {
 protected:
  CheckpointWriterTest() {
    std::string name = testing::TempDir() + "writer-XXXXXX";
    root_ = mkdtemp(name.data());
    store_.emplace(open(1));
    EXPECT_TRUE(store_->begin());
  }
  ~CheckpointWriterTest() override { std::filesystem::remove_all(root_); }

  CheckpointStore open(int generation) const {
    auto store = CheckpointStore::open(root_, {.run = "run.1",
                                               .run_id = "id",
                                               .generation = generation,
                                               .token = std::to_string(generation)});
    EXPECT_TRUE(store);
    return *store;
  }

  CheckpointWriter::Options options(std::chrono::milliseconds patience = std::chrono::minutes(2)) {
    return {.keep = 2,
            .complain =
                [this](const std::string& sentence) {
                  const std::lock_guard lock(mutex_);
                  complaints_.push_back(sentence);
                },
            .patience = patience};
  }

  static format::Safetensors content() {
    format::Safetensors content;
    content.metadata["says"] = "something";
    return content;
  }
  static CheckpointWriter::Snapshot first(std::int64_t step) {
    CheckpointWriter::Snapshot snapshot{.step = step};
    snapshot.files.emplace_back("rank-0", content());
    snapshot.manifest =
        CheckpointStore::Manifest{.step = step, .world = 2, .files = {"rank-0", "rank-1"}};
    return snapshot;
  }
  static CheckpointWriter::Snapshot second(std::int64_t step) {
    CheckpointWriter::Snapshot snapshot{.step = step};
    snapshot.files.emplace_back("rank-1", content());
    return snapshot;
  }
  // Whatever the second worker wants to write there, it cannot.
  void spoil(std::int64_t step) const {
    const auto staged = store_->stage(step);
    ASSERT_TRUE(staged);
    std::filesystem::create_directories(*staged + "/rank-1");
  }
  std::vector<std::string> steps() const {
    std::vector<std::string> found;
    for (const std::string& name : listDirectory(root_)) {
      if (name.starts_with("step-")) found.push_back(name);
    }
    return found;
  }
  std::vector<std::string> complaints() {
    const std::lock_guard lock(mutex_);
    return complaints_;
  }

  std::string root_;
  std::optional<CheckpointStore> store_;
  std::mutex mutex_;
  std::vector<std::string> complaints_;
};

TEST_F(CheckpointWriterTest, PublishesWhatAllHaveWrittenAndKeepsTheNewest) {
  CheckpointWriter one(*store_, options());
  CheckpointWriter two(*store_, options());
  for (const std::int64_t step : {10, 20, 30}) {
    one.write(first(step));
    two.write(second(step));
    two.finish();
    one.finish();
  }
  EXPECT_EQ(one.written(), 3);
  EXPECT_THAT(steps(), ElementsAre("step-0000000020", "step-0000000030"));
  EXPECT_THAT(complaints(), IsEmpty());
}

TEST_F(CheckpointWriterTest, APartThatCouldNotBeWrittenCostsThatCheckpointOnly) {
  CheckpointWriter one(*store_, options());
  CheckpointWriter two(*store_, options());
  spoil(20);
  for (const std::int64_t step : {10, 20, 30, 40}) {
    one.write(first(step));
    two.write(second(step));
  }
  two.finish();
  one.finish();
  EXPECT_EQ(one.written(), 3);
  EXPECT_THAT(steps(), ElementsAre("step-0000000030", "step-0000000040"));
  EXPECT_THAT(complaints(),
              testing::UnorderedElementsAre(
                  HasSubstr("this worker's part of the checkpoint of step 20 could not be written"),
                  HasSubstr("the checkpoint of step 20 is lost")));
}

// Another generation has taken the directory: the store refuses this one's checkpoints.
TEST_F(CheckpointWriterTest, AnOlderGenerationIsRefused) {
  CheckpointWriter::Snapshot snapshot{.step = 10};
  snapshot.files.emplace_back("rank-0", content());
  snapshot.manifest = CheckpointStore::Manifest{.step = 10, .files = {"rank-0"}};
  CheckpointWriter older(*store_, options());
  older.write(snapshot);
  older.finish();
  EXPECT_TRUE(older.checkTaken());
  CheckpointStore newer = open(2);
  ASSERT_TRUE(newer.resume(*newer.findNewest()));
  snapshot.step = snapshot.manifest->step = 20;
  older.write(snapshot);
  older.finish();
  EXPECT_EQ(older.written(), 1);
  EXPECT_EQ(older.checkTaken().error().code(), Code::kConflict);
  EXPECT_THAT(steps(), ElementsAre("step-0000000010"));
  EXPECT_THAT(complaints(), ElementsAre(HasSubstr("generation 2 of this run writes to")));
}

// A worker that could not even say that it failed.
TEST_F(CheckpointWriterTest, OneThatLacksAPartIsGivenUpOnceALaterOneIsWhole) {
  CheckpointWriter one(*store_, options());
  CheckpointWriter two(*store_, options());
  one.write(first(10));
  one.write(first(20));
  EXPECT_TRUE(one.isBusy());
  two.write(second(20));
  one.finish();
  EXPECT_THAT(steps(), ElementsAre("step-0000000020"));
  EXPECT_THAT(complaints(), ElementsAre(HasSubstr("the checkpoint of step 10 is lost")));
}

TEST_F(CheckpointWriterTest, WaitsForOthersAndNotForEver) {
  CheckpointWriter one(*store_, options(std::chrono::milliseconds(100)));
  one.write(first(10));
  EXPECT_TRUE(one.isBusy());
  one.finish();
  EXPECT_FALSE(one.isBusy());
  EXPECT_EQ(one.written(), 0);
  EXPECT_THAT(steps(), IsEmpty());
  EXPECT_THAT(complaints(), ElementsAre(HasSubstr("another worker did not write its part")));
}

// The first one's own part fails each time while the other's is written each time.
TEST_F(CheckpointWriterTest, NothingPilesUpWhereNoneIsEverWhole) {
  {
    CheckpointWriter one(*store_, options());
    CheckpointWriter two(*store_, options());
    for (std::int64_t step = 1; step <= 20; ++step) {
      const auto staged = store_->stage(step);
      ASSERT_TRUE(staged);
      std::filesystem::create_directories(*staged + "/rank-0");
      two.write(second(step));
      one.write(first(step));
      EXPECT_LE(steps().size(), 5u);
    }
    two.finish();
    one.finish();
    EXPECT_EQ(one.written(), 0);
  }
  EXPECT_THAT(steps(), IsEmpty());
}

}  // namespace
}  // namespace dure::train
