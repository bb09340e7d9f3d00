#include "bundle/ignore.h"

#include <cctype>
#include <optional>
#include <utility>

namespace dure::bundle {
namespace {

using Set = std::bitset<256>;

std::size_t at(char c) { return static_cast<unsigned char>(c); }

bool oneOf(char c, std::string_view name) {
  const int code = static_cast<unsigned char>(c);
  if (code >= 128) return false;
  constexpr std::pair<std::string_view, int (*)(int)> kClasses[] = {
      {"alnum", isalnum}, {"alpha", isalpha}, {"blank", isblank}, {"cntrl", iscntrl},
      {"digit", isdigit}, {"graph", isgraph}, {"lower", islower}, {"print", isprint},
      {"punct", ispunct}, {"space", isspace}, {"upper", isupper}, {"xdigit", isxdigit}};
  for (const auto& [known, test] : kClasses) {
    if (known == name) return test(code) != 0;
  }
  return false;
}

bool isClass(std::string_view name) {
  return oneOf('a', name) || oneOf('A', name) || oneOf('0', name) || oneOf(' ', name) ||
         oneOf('.', name) || oneOf('\n', name);
}

// The set that begins behind the bracket at text[i - 1]; `i` is then behind its end. Nothing if it
// has no end.
std::optional<Set> parseSet(std::string_view text, std::size_t& i) {
  const auto peek = [&](std::size_t k) { return k < text.size() ? text[k] : '\0'; };
  const bool negated = peek(i) == '!' || peek(i) == '^';
  if (negated) ++i;
  Set set;
  char before = '\0';  // what a range would begin with
  for (bool first = true; first || peek(i) != ']'; first = false, ++i) {
    char c = peek(i);
    if (c == '\0') return std::nullopt;
    if (c == '\\') {
      c = peek(++i);
      if (c == '\0') return std::nullopt;
      set.set(at(c));
      before = c;
    } else if (c == '-' && before != '\0' && peek(i + 1) != '\0' && peek(i + 1) != ']') {
      c = peek(++i);
      if (c == '\\') c = peek(++i);
      if (c == '\0') return std::nullopt;
      for (std::size_t k = at(before); k <= at(c); ++k) set.set(k);
      before = '\0';
    } else if (c == '[' && peek(i + 1) == ':') {
      const std::size_t end = text.find(']', i + 2);
      if (end == std::string_view::npos) return std::nullopt;
      if (end == i + 2 || text[end - 1] != ':') {  // a bracket like any other
        set.set(at('['));
        before = '[';
        continue;
      }
      const std::string_view name = text.substr(i + 2, end - i - 3);
      if (!isClass(name)) return std::nullopt;
      for (std::size_t k = 0; k < set.size(); ++k) {
        if (oneOf(static_cast<char>(k), name)) set.set(k);
      }
      i = end;
      before = '\0';
    } else {
      set.set(at(c));
      before = c;
    }
  }
  ++i;
  if (negated) set.flip();
  set.reset(at('/'));
  return set;
}

// Spaces at the end do not count, unless behind a backslash.
std::string_view withoutSpaces(std::string_view line) {
  std::size_t end = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\\') {
      if (++i == line.size()) return line;
      end = i + 1;
    } else if (line[i] != ' ') {
      end = i + 1;
    }
  }
  return line.substr(0, end);
}

}  // namespace

IgnoreRules::IgnoreRules(std::string_view text) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.starts_with('#')) addLine(withoutSpaces(line));
  }
}

void IgnoreRules::addLine(std::string_view line) {
  Rule rule{};
  rule.takes_back = line.starts_with('!');
  if (rule.takes_back) line.remove_prefix(1);
  rule.only_directories = line.ends_with('/');
  if (rule.only_directories) line.remove_suffix(1);
  rule.of_last_name = line.find('/') == std::string_view::npos;
  if (line.starts_with('/')) line.remove_prefix(1);
  if (!line.empty() && parse(line, rule.of_last_name, rule.pattern)) {
    rules_.push_back(std::move(rule));
  }
}

bool IgnoreRules::parse(std::string_view text, bool of_last_name, Pattern& pattern) {
  using Kind = Token::Kind;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t begin = i;
    const char c = text[i++];
    if (c == '*') {
      while (i < text.size() && text[i] == '*') ++i;
      // Two stars mean more than one only where they are all of a name. With plain text alone
      // before them git does not look at what that ends with, against its manual; so do we.
      const bool begins = begin == 0 || text[begin - 1] == '/' ||
                          text.substr(0, begin).find_first_of("*?[\\") == std::string_view::npos;
      const bool ends = i == text.size() || text[i] == '/';
      const bool whole = i - begin > 1 && !of_last_name && begins && ends;
      if (whole && i < text.size()) {
        pattern.push_back({Kind::kDirectories, {}});
        ++i;
      } else {
        pattern.push_back({whole ? Kind::kEverything : Kind::kStar, {}});
      }
      continue;
    }
    Token token{Kind::kSet, {}};
    if (c == '?') {
      token.set.set().reset(at('/'));
    } else if (c == '[') {
      const auto set = parseSet(text, i);
      if (!set) return false;
      token.set = *set;
    } else if (c == '\\') {
      if (i == text.size()) return false;
      token.set.set(at(text[i++]));
    } else {
      token.set.set(at(c));
    }
    pattern.push_back(token);
  }
  return true;
}

// All ways at once, byte by byte: the time is that of the pattern's length times the text's,
// however many stars there are.
bool IgnoreRules::matches(const Pattern& pattern, std::string_view text) {
  using Kind = Token::Kind;
  const std::size_t end = pattern.size();
  // Most names differ from most patterns in the first or the last byte already.
  const auto cannotBe = [](const Token& token, char c) {
    return token.kind == Kind::kSet && !token.set[at(c)];
  };
  if (text.empty() || cannotBe(pattern.front(), text.front()) ||
      cannotBe(pattern.back(), text.back())) {
    return false;
  }
  // Whether the text so far can have brought us before this token.
  std::vector<bool> here(end + 1), next(end + 1);
  here[0] = true;
  // Tokens that may stand for nothing.
  const auto skip = [&](std::vector<bool>& states) {
    for (std::size_t i = 0; i < end; ++i) {
      if (states[i] && pattern[i].kind != Kind::kSet) states[i + 1] = true;
    }
  };
  // A kDirectories that has begun may end at slashes only, so it is not left by skipping.
  std::vector<bool> inside(end), inside_next(end);
  skip(here);
  for (const char c : text) {
    next.assign(end + 1, false);
    inside_next.assign(end, false);
    for (std::size_t i = 0; i < end; ++i) {
      const Token& token = pattern[i];
      if (token.kind == Kind::kDirectories) {
        if (!here[i] && !inside[i]) continue;
        inside_next[i] = true;
        if (c == '/') next[i + 1] = true;
      } else if (!here[i]) {
        continue;
      } else if (token.kind == Kind::kSet) {
        if (token.set[at(c)]) next[i + 1] = true;
      } else if (token.kind == Kind::kEverything || c != '/') {
        next[i] = true;
      }
    }
    skip(next);
    here.swap(next);
    inside.swap(inside_next);
  }
  return here[end];
}

bool IgnoreRules::ignores(std::string_view path, bool is_directory) const {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  for (auto rule = rules_.rbegin(); rule != rules_.rend(); ++rule) {
    if (rule->only_directories && !is_directory) continue;
    if (matches(rule->pattern, rule->of_last_name ? name : path)) return !rule->takes_back;
  }
  return false;
}

}  // namespace dure::bundle
