#include "pipeline/output_tree.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "base/files.h"

namespace dure::pipeline {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;

class OutputTreeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = ::testing::TempDir() + "/treeXXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    directory_ = name;
  }
  void TearDown() override { fs::remove_all(directory_); }

  void writes(OutputTree& tree, const std::string& folder, const std::string& text) {
    ASSERT_TRUE(tree.prepare(folder, false));
    ASSERT_TRUE(replaceFile(tree.foldersOf(folder).out + "/file", text));
  }
  static std::string contentOf(const OutputTree& tree, const std::string& folder) {
    return *readFile(tree.volume() + "/" + folder + "/file", 100);
  }

  std::string directory_;
};

TEST_F(OutputTreeTest, OthersSeeAnOutputWhenItIsPublished) {
  OutputTree tree(directory_ + "/a");
  writes(tree, "train/3", "model");
  EXPECT_FALSE(tree.has("train/3"));
  const auto digest = tree.publish("train/3");
  ASSERT_TRUE(digest);
  EXPECT_TRUE(tree.has("train/3"));
  EXPECT_EQ(contentOf(tree, "train/3"), "model");
  EXPECT_FALSE(fileExists(fs::path(tree.foldersOf("train/3").out).parent_path()));
}

TEST_F(OutputTreeTest, PublishingAgainAfterAKillIsTheSame) {
  OutputTree tree(directory_ + "/a");
  writes(tree, "copy", "data");
  const auto first = tree.publish("copy");
  const auto again = tree.publish("copy");
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_EQ(*again, *first);
  EXPECT_EQ(contentOf(tree, "copy"), "data");
  // Killed between the two steps of publishing.
  ASSERT_TRUE(makeDirectories(tree.foldersOf("copy").scratch));
  EXPECT_EQ(*tree.publish("copy"), *first);
  EXPECT_FALSE(fileExists(tree.foldersOf("copy").scratch));
}

TEST_F(OutputTreeTest, AnAttemptThatGoesOnAfterItWasPublishedKeepsItsOutput) {
  OutputTree tree(directory_ + "/a");
  writes(tree, "count/1", "sum");
  const auto digest = tree.publish("count/1");
  ASSERT_TRUE(tree.prepare("count/1", true));
  const auto again = tree.publish("count/1");
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_EQ(*again, *digest);
  EXPECT_EQ(contentOf(tree, "count/1"), "sum");
}

TEST_F(OutputTreeTest, WhatWasNeverWrittenIsAnError) {
  OutputTree tree(directory_ + "/a");
  EXPECT_FALSE(tree.publish("nothing"));
}

TEST_F(OutputTreeTest, AnAttemptBeginsWithNothingUnlessItGoesOn) {
  OutputTree tree(directory_ + "/a");
  writes(tree, "train", "half");
  ASSERT_TRUE(tree.prepare("train", true));
  EXPECT_TRUE(fileExists(tree.foldersOf("train").out + "/file"));
  ASSERT_TRUE(tree.prepare("train", false));
  EXPECT_FALSE(fileExists(tree.foldersOf("train").out + "/file"));
}

TEST_F(OutputTreeTest, TakesOverOnlyTheContentThatIsMeant) {
  OutputTree earlier(directory_ + "/earlier");
  writes(earlier, "train/0", "model");
  const auto digest = earlier.publish("train/0");
  ASSERT_TRUE(earlier.report("train-0", "{}\n"));
  OutputTree later(directory_ + "/later");
  const auto other = later.takeOver(earlier, "train-0", "train/0", "another digest");
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code(), Code::kNotFound);
  EXPECT_FALSE(later.has("train/0"));
  ASSERT_TRUE(later.takeOver(earlier, "train-0", "train/0", *digest));
  EXPECT_EQ(contentOf(later, "train/0"), "model");
  EXPECT_EQ(*readFile(later.foldersOf("train/0").reports + "/train-0.json", 10), "{}\n");
  std::vector<std::string> names;
  for (const OutputTree::File& file : later.list()) names.push_back(file.name);
  EXPECT_THAT(names, ElementsAre("train/0/file"));
}

}  // namespace
}  // namespace dure::pipeline
