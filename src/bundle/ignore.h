#pragma once

#include <bitset>
#include <string>
#include <string_view>
#include <vector>

namespace dure::bundle {

// Which files of a folder are left out, in the language of .gitignore: comments, *, ?, [a-z], **,
// a slash at the end for directories only, one elsewhere for paths from the root, and ! to take
// back. The last line that matches decides. A pattern that git would never match matches nothing.
class IgnoreRules {
 public:
  explicit IgnoreRules(std::string_view text);

  // `path` is relative to the root, without a slash at either end. Nothing below an ignored
  // directory is to be asked about: it is gone with the directory, whatever takes it back.
  bool ignores(std::string_view path, bool is_directory) const;

 private:
  struct Token {
    enum class Kind {
      kSet,          // one byte out of `set`
      kStar,         // any bytes but slashes
      kDirectories,  // nothing, or anything that ends with a slash
      kEverything,   // any bytes
    };
    Kind kind;
    std::bitset<256> set;
  };
  using Pattern = std::vector<Token>;
  struct Rule {
    Pattern pattern;
    bool takes_back;
    bool only_directories;
    bool of_last_name;  // without a slash: whatever the directory is
  };

  void addLine(std::string_view line);
  // False if no text can match it.
  static bool parse(std::string_view text, bool of_last_name, Pattern& pattern);
  static bool matches(const Pattern& pattern, std::string_view text);

  std::vector<Rule> rules_;
};

}  // namespace dure::bundle
