#include "bundle/ignore.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <random>
#include <set>

#include "base/text.h"
#include "bundle/test_folder.h"

namespace dure::bundle {
namespace {

TEST(Ignore, MatchesAsGitSaysInItsManual) {
  struct Case {
    const char* rules;
    const char* path;
    bool directory;
    bool ignored;
  };
  const Case cases[] = {
      {"# nothing\n\n   \n", "a", false, false},
      {"build", "build", true, true},
      {"build", "src/build", false, true},
      {"build", "builds", false, false},
      {"build/", "build", true, true},
      {"build/", "build", false, false},
      {"/build", "build", false, true},
      {"/build", "src/build", false, false},
      {"doc/frotz", "doc/frotz", false, true},
      {"doc/frotz", "a/doc/frotz", false, false},
      {"*.o", "src/deep/x.o", false, true},
      {"src/*.o", "src/x.o", false, true},
      {"src/*.o", "src/deep/x.o", false, false},
      {"**/foo", "foo", false, true},
      {"**/foo", "a/b/foo", false, true},
      {"**/foo", "a/b/xfoo", false, false},
      {"abc/**", "abc/x/y", false, true},
      {"abc/**", "abc", true, false},
      {"a/**/b", "a/b", false, true},
      {"a/**/b", "a/x/y/b", false, true},
      {"a/**/b", "a/xb", false, false},
      {"a**/b", "ax/b", false, true},
      {"?**/b", "a/x/b", false, false},
      {"?.txt", "a.txt", false, true},
      {"?.txt", "ab.txt", false, false},
      {"a?b/c", "a/b/c", false, false},
      {"[a-c]x", "bx", false, true},
      {"[a-c]x", "dx", false, false},
      {"[!a-c]x", "dx", false, true},
      {"[]-]x", "-x", false, true},
      {"[[:digit:]]x", "7x", false, true},
      {"[[:nothing:]]x", "7x", false, false},
      {"[abc", "[abc", false, false},
      {"*.log\n!keep.log", "keep.log", false, false},
      {"*.log\n!keep.log", "other.log", false, true},
      {"!keep.log\n*.log", "keep.log", false, true},
      {"\\#x", "#x", false, true},
      {"\\!x", "!x", false, true},
      {"x  ", "x", false, true},
      {"x\\ ", "x ", false, true},
      {"x\r\ny\r\n", "x", false, true},
      {"\xEF\xBB\xBFx", "x", false, true},
      {"x\\", "x", false, false},
      {"/", "a", true, false},
      {"\xC3\xA4*", "\xC3\xA4rger", false, true},
  };
  for (const Case& each : cases) {
    EXPECT_EQ(IgnoreRules(each.rules).ignores(each.path, each.directory), each.ignored)
        << each.rules << " on " << each.path;
  }
}

TEST(Ignore, ManyStarsTakeNoLonger) {
  std::string pattern;
  for (int i = 0; i < 200; ++i) pattern += "*a";
  EXPECT_FALSE(IgnoreRules(pattern + "b").ignores(std::string(2000, 'a') + "cb", false));
}

class IgnoreLikeGit : public FolderTree {
 protected:
  void SetUp() override { run("git init -q folder"); }

  // What our rules leave of the tree's files.
  void keep(const IgnoreRules& rules, const std::string& below, std::set<std::string>& kept) const {
    for (const std::string& name : listDirectory(path("folder/" + below))) {
      if (name == ".git") continue;
      const std::string inside = below.empty() ? name : below + "/" + name;
      const bool directory =
          std::filesystem::is_directory(std::filesystem::symlink_status(path("folder/" + inside)));
      if (rules.ignores(inside, directory)) continue;
      if (directory) {
        keep(rules, inside, kept);
      } else {
        kept.insert(inside);
      }
    }
  }

  std::set<std::string> keptByGit(const std::string& rules) const {
    write("rules", rules);
    const std::string list = run("git -C folder ls-files -z --others --exclude-from=../rules");
    std::set<std::string> kept;
    for (const std::string& name : split(list, '\0')) {
      if (!name.empty()) kept.insert(name);
    }
    return kept;
  }
};

// Short names of few letters, so that many patterns match something.
TEST_F(IgnoreLikeGit, RandomRulesOnARandomTree) {
  std::mt19937 random(7);
  const auto below = [&](std::size_t bound) { return static_cast<std::size_t>(random() % bound); };
  const std::vector<std::string> names = {"a",   "b",    "ab", "a.b", "b.a",     "c",
                                          "[a]", "a b",  "#a", "!a",  "aa",      "-",
                                          "A",   "a\\b", "b ", "*",   "\xC3\xA4"};
  for (int i = 0; i < 300; ++i) {
    std::string name = names[below(names.size())];
    for (std::size_t depth = below(4); depth > 0; --depth) {
      name = names[below(names.size())] + "_/" + name;
    }
    if (below(10) == 0) {
      std::filesystem::create_directories(
          std::filesystem::path(path("folder/" + name)).parent_path());
      std::error_code taken;
      std::filesystem::create_symlink("a_", path("folder/" + name), taken);
    } else {
      write("folder/" + name, "x");
    }
  }
  const std::vector<std::string> pieces = {
      "a",    "b",   "_",  "a_",   "b_",   "ab_",      "*",     "?",           "**",   "/",  "/",
      "/**/", "**/", ".b", "[ab]", "[!a]", "[^b-c]",   "[a-c]", "[[:alpha:]]", "\\",   "#",  "!",
      " ",    "-",   "[",  "]",    "a/",   "\xC3\xA4", "/**",   "[]a]",        "[a-]", "\\*"};
  std::set<std::string> all;
  keep(IgnoreRules(""), "", all);
  int decisive = 0;
  for (int round = 0; round < 200; ++round) {
    std::string rules;
    for (std::size_t lines = 1 + below(5); lines > 0; --lines) {
      if (below(4) == 0) rules += "!";
      if (below(5) == 0) rules += "/";
      for (std::size_t count = 1 + below(4); count > 0; --count)
        rules += pieces[below(pieces.size())];
      if (below(5) == 0) rules += "/";
      rules += below(10) == 0 ? "\r\n" : "\n";
    }
    const std::set<std::string> expected = keptByGit(rules);
    std::set<std::string> kept;
    keep(IgnoreRules(rules), "", kept);
    std::vector<std::string> differing;
    std::set_symmetric_difference(kept.begin(), kept.end(), expected.begin(), expected.end(),
                                  std::back_inserter(differing));
    ASSERT_THAT(differing, testing::IsEmpty()) << "the rules\n" << rules;
    decisive += expected.size() < all.size() && !expected.empty() ? 1 : 0;
  }
  EXPECT_GT(decisive, 60) << "many rules should have left out something, and not everything";
}

}  // namespace
}  // namespace dure::bundle
