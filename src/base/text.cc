#include "base/text.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

namespace dure {
namespace {

struct Unit {
  std::string_view name;
  double scale;
};

constexpr std::array<Unit, 5> kTimeUnits{
    {{"ms", 1}, {"s", 1e3}, {"m", 60e3}, {"h", 3600e3}, {"d", 86400e3}}};

constexpr std::array<Unit, 12> kByteUnits{{{"Ki", 1024.0},
                                           {"Mi", 1048576.0},
                                           {"Gi", 1073741824.0},
                                           {"Ti", 1099511627776.0},
                                           {"Pi", 1125899906842624.0},
                                           {"k", 1e3},
                                           {"K", 1e3},
                                           {"M", 1e6},
                                           {"G", 1e9},
                                           {"T", 1e12},
                                           {"P", 1e15},
                                           {"", 1}}};

// Takes the number at the front of `text`: digits with at most one point.
std::optional<double> takeNumber(std::string_view& text) {
  std::size_t length = 0;
  while (length < text.size() &&
         (std::isdigit(static_cast<unsigned char>(text[length])) != 0 || text[length] == '.')) {
    ++length;
  }
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + length, value);
  if (length == 0 || error != std::errc() || end != text.data() + length) return std::nullopt;
  text.remove_prefix(length);
  return value;
}

std::string_view takeLetters(std::string_view& text) {
  std::size_t length = 0;
  while (length < text.size() && std::isalpha(static_cast<unsigned char>(text[length])) != 0) {
    ++length;
  }
  const std::string_view letters = text.substr(0, length);
  text.remove_prefix(length);
  return letters;
}

// The length of the UTF-8 sequence at the front of `text`, 0 if it is not valid.
std::size_t utf8Length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  std::size_t length = 0;
  unsigned minimum = 0;
  unsigned value = 0;
  if (lead >= 0xC2 && lead < 0xE0) {
    length = 2, minimum = 0x80, value = lead & 0x1Fu;
  } else if (lead >= 0xE0 && lead < 0xF0) {
    length = 3, minimum = 0x800, value = lead & 0x0Fu;
  } else if (lead >= 0xF0 && lead < 0xF5) {
    length = 4, minimum = 0x10000, value = lead & 0x07u;
  }
  if (length == 0 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0u) != 0x80) return 0;
    value = (value << 6u) | (byte(i) & 0x3Fu);
  }
  const bool surrogate = value >= 0xD800 && value < 0xE000;
  return value < minimum || value > 0x10FFFF || surrogate ? 0 : length;
}

// Edit distance in which two swapped neighbours count once.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
      }
    }
  }
  return d[a.size()][b.size()];
}

}  // namespace

std::optional<Duration> parseDuration(std::string_view text) {
  double total = 0;
  bool first = true;
  while (!text.empty() || first) {
    const auto number = takeNumber(text);
    if (!number) return std::nullopt;
    const std::string_view name = takeLetters(text);
    if (name.empty()) {
      if (!first || !text.empty()) return std::nullopt;
      total = *number * 1e3;
      break;
    }
    const auto* unit = std::find_if(kTimeUnits.begin(), kTimeUnits.end(),
                                    [&](const Unit& u) { return u.name == name; });
    if (unit == kTimeUnits.end()) return std::nullopt;
    total += *number * unit->scale;
    first = false;
  }
  // A century: far beyond any job, far below overflow.
  if (total > 100.0 * 365 * 86400e3) return std::nullopt;
  return Duration(std::llround(total));
}

std::string formatDuration(Duration duration) {
  std::int64_t left = duration.count();
  if (left == 0) return "0s";
  std::string text;
  for (auto unit = kTimeUnits.rbegin(); unit != kTimeUnits.rend(); ++unit) {
    const auto scale = static_cast<std::int64_t>(unit->scale);
    if (left >= scale) text += fmt::format("{}{}", left / scale, unit->name);
    left %= scale;
  }
  return text;
}

std::string describeDuration(Duration duration) {
  // A clock that was set back must not make a sentence odd.
  const std::int64_t millis = std::max<std::int64_t>(0, duration.count());
  const std::int64_t seconds = millis / 1000;
  if (millis < 10000) return fmt::format("{:.2g} s", static_cast<double>(millis) / 1e3);
  if (seconds < 60) return fmt::format("{} s", seconds);
  if (seconds < 3600) return fmt::format("{} m {} s", seconds / 60, seconds % 60);
  if (seconds < 86400) return fmt::format("{} h {} m", seconds / 3600, seconds / 60 % 60);
  return fmt::format("{} d {} h", seconds / 86400, seconds / 3600 % 24);
}

std::optional<std::int64_t> parseBytes(std::string_view text) {
  const std::string_view given = text;
  const auto number = takeNumber(text);
  if (!number) return std::nullopt;
  const auto* unit = std::find_if(kByteUnits.begin(), kByteUnits.end(),
                                  [&](const Unit& u) { return u.name == text; });
  if (unit == kByteUnits.end()) return std::nullopt;
  std::int64_t whole = 0;
  if (unit->scale == 1 && std::from_chars(given.data(), given.data() + given.size(), whole).ptr ==
                              given.data() + given.size()) {
    return whole;
  }
  const double bytes = *number * unit->scale;
  if (bytes > 9e18) return std::nullopt;
  return static_cast<std::int64_t>(bytes);
}

std::string formatBytes(std::int64_t bytes) {
  for (const std::string_view name : {"Pi", "Ti", "Gi", "Mi", "Ki"}) {
    const auto* unit = std::find_if(kByteUnits.begin(), kByteUnits.end(),
                                    [&](const Unit& u) { return u.name == name; });
    const auto scale = static_cast<std::int64_t>(unit->scale);
    if (bytes >= scale && bytes % scale == 0) return fmt::format("{}{}", bytes / scale, name);
  }
  return fmt::format("{}", bytes);
}

std::optional<std::size_t> findInvalidUtf8(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t length = utf8Length(text.substr(at));
    if (length == 0) return at;
    at += length;
  }
  return std::nullopt;
}

std::string toValidUtf8(std::string_view text) {
  std::string valid;
  valid.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = utf8Length(text);
    valid += length == 0 ? std::string_view("\xEF\xBF\xBD") : text.substr(0, length);
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return valid;
}

std::optional<std::string> closest(std::string_view word,
                                   const std::vector<std::string>& candidates) {
  // A third of the letters may be wrong; a longer word than any field is not worth the search.
  if (word.size() > 64) return std::nullopt;
  std::size_t best = std::max<std::size_t>(1, word.size() / 3) + 1;
  std::optional<std::string> found;
  for (const std::string& candidate : candidates) {
    const std::size_t d = distance(word, candidate);
    if (d < best) {
      best = d;
      found = candidate;
    }
  }
  return found;
}

std::string join(const std::vector<std::string>& words, std::string_view separator) {
  std::string text;
  for (const std::string& word : words) {
    if (&word != &words.front()) text += separator;
    text += word;
  }
  return text;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  while (true) {
    const std::size_t end = text.find(separator, begin);
    parts.emplace_back(text.substr(begin, end - begin));
    if (end == std::string_view::npos) return parts;
    begin = end + 1;
  }
}

bool contains(std::string_view text, std::string_view words) {
  return text.find(words) != text.npos;
}

std::string shellQuote(std::string_view word) {
  const auto plain = [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("_-./=:,+@%").find(static_cast<char>(c)) != std::string_view::npos;
  };
  if (!word.empty() && std::all_of(word.begin(), word.end(), plain)) return std::string(word);
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

bool equalInConstantTime(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  volatile unsigned char difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference = static_cast<unsigned char>(difference | (a[i] ^ b[i]));
  }
  return difference == 0;
}

}  // namespace dure
