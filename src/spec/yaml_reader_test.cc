#include "spec/yaml_reader.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "spec/load.h"
#include "spec/test_jobs.h"

namespace dure::spec {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::string repeat(const std::string& text, std::size_t times) {
  std::string all;
  for (std::size_t i = 0; i < times; ++i) all += text;
  return all;
}

TEST(YamlReaderTest, KnowsWhereEverythingWasWritten) {
  std::vector<Finding> findings;
  const auto root = readTree("a: 1\nb:\n  c: [x, 'y']\n", 0, findings);
  ASSERT_TRUE(root);
  EXPECT_THAT(findings, IsEmpty());
  const TreeNode& a = *root->find("a");
  EXPECT_EQ(a.key_at, (Position{0, 1, 1}));
  EXPECT_EQ(a.at, (Position{0, 1, 4}));
  EXPECT_FALSE(a.quoted);
  const TreeNode& c = *root->find("b")->find("c");
  EXPECT_EQ(c.key_at, (Position{0, 3, 3}));
  EXPECT_EQ(c.children.at(1).at, (Position{0, 3, 10}));
  EXPECT_EQ(c.children.at(1).text, "y");
  EXPECT_TRUE(c.children.at(1).quoted);
  EXPECT_EQ(root->find("missing"), nullptr);
}

TEST(YamlReaderTest, AliasesAreCopies) {
  std::vector<Finding> findings;
  const auto root = readTree("a: &x {b: [1, 2]}\nc: *x\nd: &y z\ne: *y\n", 0, findings);
  ASSERT_TRUE(root);
  EXPECT_TRUE(sameContent(*root->find("a"), *root->find("c")));
  EXPECT_EQ(root->find("e")->text, "z");
}

TEST(YamlReaderTest, EscapesBecomeUtf8) {
  std::vector<Finding> findings;
  const auto root = readTree(R"(a: "\_\N\xe9\u0080")", 0, findings);
  ASSERT_TRUE(root);
  EXPECT_EQ(root->find("a")->text, "\u00a0\u0085\u00e9\u0080");
}

TEST(YamlReaderTest, RefusesWhatIsNotOneDocument) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"", "job.yaml: is empty"},
      {"# nothing\n", "job.yaml: is empty"},
      {"---\n", "job.yaml: is empty"},
      {"null\n", "job.yaml: is empty"},
      {"- a\n", "job.yaml:1:1: must be a map of fields, got a list"},
      {"hello\n", "job.yaml:1:1: must be a map of fields, got \"hello\""},
      {"a: 1\n---\nb: 2\n", "job.yaml:2:1: a second document begins here; a job is one document"},
      {"{a: 1} b\n", "job.yaml:1:8: not valid YAML: nothing can follow what ended before this"},
      {"name: a\nname: b\n", "job.yaml:2:1: name: is given twice"},
      {"env: {A: 1, 'A': 2}\n", "job.yaml:1:13: A: is given twice"},
      {"a: *b\n", "job.yaml:1:4: not valid YAML: the referenced anchor is not defined"},
      {"a: &b [*b]\n", "job.yaml:1:8: an alias inside of what it stands for"},
      {"[a]: 1\n", "job.yaml:1:1: a list or map cannot be a name"},
      {"a: &a {b: 1}\nc: {<<: *a}\n",
       "job.yaml:2:5: merge keys (<<) are not supported; write the fields out"},
      {"a: !python/object x\n", "job.yaml:1:4: the tag !python/object has no meaning here"},
      {"a: [1, 2\n", "job.yaml:2:1: not valid YAML: end of sequence flow not found"},
      {"a: \"x\n", "job.yaml:2:2: not valid YAML: illegal EOF in scalar"},
      {"a: 'x", "job.yaml:2:2: not valid YAML: illegal EOF in scalar"},
      {"a: b: c\n", "job.yaml:1:5: not valid YAML: illegal map value"},
      {"a:\n\t- b\n", "job.yaml:2:2: not valid YAML: illegal block entry"},
  };
  for (const auto& [text, problem] : cases) {
    EXPECT_THAT(problemsOf(text), ElementsAre(problem)) << text;
  }
}

TEST(YamlReaderTest, RefusesBytesThatAreNotText) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"name: a\nenv: {A: \xff}\n", "job.yaml:2:10: not UTF-8: byte 0xff"},
      {"name: \xc3", "job.yaml:1:7: not UTF-8: byte 0xc3"},
      {std::string("name: \0x\n", 9), "job.yaml:1:7: control character 0x00"},
      {std::string("n\0a\0m\0e\0", 8), "job.yaml:1:2: control character 0x00"},
      {"name: a\x04\nworkers: -1\n", "job.yaml:1:8: control character 0x04"},
      {"\xff\xfen\0", "job.yaml:1:1: not UTF-8: byte 0xff"},
  };
  for (const auto& [text, problem] : cases) EXPECT_THAT(problemsOf(text), ElementsAre(problem));
}

TEST(YamlReaderTest, TakesTheFilesOfOtherSystems) {
  const std::string lines = "program:\n  command: [a]\nworkers: 2\n";
  std::string windows;
  for (const char c : lines) windows += c == '\n' ? std::string("\r\n") : std::string(1, c);
  EXPECT_THAT(problemsOf(windows), IsEmpty());
  EXPECT_THAT(problemsOf("\xEF\xBB\xBF" + lines), IsEmpty());
  EXPECT_THAT(problemsOf("\xEF\xBB\xBFworkers: 0\r\nprogram: {command: [a]}"),
              ElementsAre("job.yaml:1:10: workers: must be 1 or more, got 0"));
  EXPECT_THAT(problemsOf("%YAML 1.2\n---\n" + lines + "...\n"), IsEmpty());
  EXPECT_EQ(loadJobText("j.yaml", "program: {command: [두레]}", {}).job.program.command.at(0),
            "두레");
}

// Small texts that would become large trees, or long computations.
TEST(YamlReaderTest, BombsEndInOneProblemQuickly) {
  std::string laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 20; ++i) {
    laughs +=
        fmt::format("a{}: &a{} [{}*a{}]\n", i, i, repeat(fmt::format("*a{}, ", i - 1), 9), i - 1);
  }
  std::string long_texts =
      "a: &a " + std::string(500'000, 'x') + "\nb: [" + repeat("*a, ", 1000) + "]\n";
  const std::vector<std::pair<std::string, std::string>> cases{
      {laughs, "too large"},
      {long_texts, "too large"},
      {"a: [" + repeat("x, ", 150'000) + "]\n", "too large"},
      {repeat("[", 100'000), "nested more than 64 deep"},
      {repeat("{a: ", 100'000), "nested more than 64 deep"},
      {repeat("- ", 100'000), "nested more than 64 deep"},
      {repeat("? ", 100'000), "nested more than 64 deep"},
  };
  for (const auto& [text, reason] : cases) {
    const auto begin = std::chrono::steady_clock::now();
    const auto problems = problemsOf(text);
    const auto took = std::chrono::steady_clock::now() - begin;
    ASSERT_EQ(problems.size(), 1u) << text.substr(0, 40);
    EXPECT_THAT(problems[0], testing::HasSubstr(reason)) << text.substr(0, 40);
    EXPECT_LT(took, std::chrono::seconds(5)) << text.substr(0, 40);
  }
}

TEST(YamlReaderTest, DepthCountsThroughAliases) {
  std::string text = "a0: &a0 [x]\n";
  for (int i = 1; i < 80; ++i) text += fmt::format("a{}: &a{} [*a{}]\n", i, i, i - 1);
  EXPECT_THAT(problemsOf(text), ElementsAre(testing::HasSubstr("nested more than 64 deep")));
}

}  // namespace
}  // namespace dure::spec
