#include "pipeline/key.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/files.h"
#include "pipeline/digest.h"
#include "pipeline/load.h"
#include "pipeline/references.h"

namespace dure::pipeline {
namespace {

namespace fs = std::filesystem;

std::string keyOfFirst(const std::string& step, const std::string& input = "i",
                       const std::string& need = "n") {
  const LoadedPipeline loaded = loadPipelineText("/p.yaml", "steps: {a: " + step + "}", {});
  EXPECT_TRUE(loaded.ok()) << loaded.problems.front().text();
  const auto key = keyOf(loaded.pipeline, partsOf(loaded.pipeline).front(), {{"/input", input}},
                         {{"b", {need}}});
  EXPECT_TRUE(key);
  return *key;
}

TEST(KeyTest, ChangesWithWhatTheResultDependsOn) {
  const std::string key = keyOfFirst("{command: x}");
  EXPECT_EQ(key, keyOfFirst("{command: x}"));
  EXPECT_EQ(key, keyOfFirst("{command: x, retries: 5, timeout: 5m, resources: {cpus: 2}}"));
  EXPECT_EQ(key, keyOfFirst("{command: x, labels: {a: b}}"));
  EXPECT_NE(key, keyOfFirst("{command: y}"));
  EXPECT_NE(key, keyOfFirst("{command: x, env: {A: b}}"));
  EXPECT_NE(key, keyOfFirst("{command: x, image: other}"));
  EXPECT_NE(key, keyOfFirst("{command: x, each: 1}"));
  EXPECT_NE(key, keyOfFirst("{command: x}", "other"));
  EXPECT_NE(key, keyOfFirst("{command: x}", "i", "other"));
  EXPECT_NE(key, keyOfFirst("{job: {program: {command: x}}}"));
}

TEST(KeyTest, PartsOfAStepHaveKeysOfTheirOwn) {
  const LoadedPipeline loaded =
      loadPipelineText("/p.yaml", "steps: {a: {each: 2, command: x}}", {});
  const std::vector<Part> parts = partsOf(loaded.pipeline);
  EXPECT_NE(*keyOf(loaded.pipeline, parts[0], {}, {}), *keyOf(loaded.pipeline, parts[1], {}, {}));
}

class DigestTest : public testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(root_);
    fs::create_directories(root_ / "a/inner");
    write("a/one", "1");
    write("a/inner/two", "2");
  }
  void TearDown() override { fs::remove_all(root_); }
  void write(const std::string& name, const std::string& text) const {
    ASSERT_TRUE(replaceFile((root_ / name).string(), text));
  }
  std::string digest(const std::string& name) const { return *digestTree((root_ / name).string()); }

  const fs::path root_ = fs::path(testing::TempDir()) / "digest_test";
};

TEST_F(DigestTest, IsThatOfNamesAndContents) {
  const std::string before = digest("a");
  fs::rename(root_ / "a", root_ / "b");
  EXPECT_EQ(digest("b"), before);
  write("b/one", "other");
  EXPECT_NE(digest("b"), before);
  write("b/one", "1");
  EXPECT_EQ(digest("b"), before);
  fs::rename(root_ / "b/one", root_ / "b/uno");
  EXPECT_NE(digest("b"), before);
  EXPECT_FALSE(digestTree((root_ / "none").string()));
}

TEST_F(DigestTest, OfAFileLongerThanABlockDependsOnAllOfIt) {
  std::string text(3'000'000, 'x');
  write("long", text);
  const std::string before = digest("long");
  text[2'900'000] = 'y';
  write("long", text);
  EXPECT_NE(digest("long"), before);
}

TEST_F(DigestTest, OfACloneIsTheSame) {
  fs::create_symlink("one", root_ / "a/link");
  ASSERT_TRUE(cloneTree((root_ / "a").string(), (root_ / "copy").string()));
  EXPECT_EQ(digest("copy"), digest("a"));
  ASSERT_TRUE(removeTree((root_ / "a").string()));
  EXPECT_EQ(*readFile((root_ / "copy/inner/two").string(), 10), "2");
  EXPECT_FALSE(cloneTree((root_ / "none").string(), (root_ / "x").string()));
}

TEST(ReferencesTest, ArePutIn) {
  const Lookup lookup = [](const std::string& name) -> std::optional<std::string> {
    if (name == "a") return "x y";
    return std::nullopt;
  };
  struct Row {
    const char* text;
    const char* plain;
    const char* shell;
  };
  for (const Row& row :
       {Row{"${{ a }}", "x y", "'x y'"},
        Row{"-${{a}}-${{ b }}", "-x y-${{ b }}", "-'x y'-${{ b }}"},
        Row{"$${{ a }}", "${{ a }}", "${{ a }}"},
        Row{"$a ${a} {{a}}", "$a ${a} {{a}}", "$a ${a} {{a}}"}, Row{"${{ a", "${{ a", "${{ a"}}) {
    EXPECT_EQ(unescape(substitute(row.text, lookup, false)), row.plain);
    EXPECT_EQ(unescape(substitute(row.text, lookup, true)), row.shell);
  }
  EXPECT_EQ(soleReference("${{ a }}"), "a");
  EXPECT_EQ(soleReference("${{ a }} "), std::nullopt);
  for (const char* text : {"", "$", "${{", "a${{b}}c${{", "$${{"}) {
    EXPECT_EQ(unescape(substitute(escape(text), lookup, false)), text);
  }
}

}  // namespace
}  // namespace dure::pipeline
