#include "serve/word_index.h"

#include <algorithm>

namespace dure::serve {
namespace {

struct CodePoint {
  std::uint32_t code = 0;
  std::size_t bytes = 1;
};

// Of valid UTF-8; any other byte counts as a character of its own.
CodePoint codePointAt(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) {
    return static_cast<std::uint32_t>(static_cast<unsigned char>(text[i]));
  };
  const std::uint32_t first = byte(at);
  const std::size_t length = first < 0x80   ? 1
                             : first < 0xc0 ? 1
                             : first < 0xe0 ? 2
                             : first < 0xf0 ? 3
                                            : 4;
  if (length == 1 || at + length > text.size()) return {first, 1};
  std::uint32_t code = first & (0xffu >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) code = code << 6 | (byte(at + i) & 0x3f);
  return {code, length};
}

constexpr std::uint32_t kApostrophe = '\'';

// Separators are 0. Letters become small ones as far as Latin, Greek and Cyrillic simply can.
std::uint32_t foldedLetter(std::uint32_t code) {
  if (code < 0x80) {
    if (code <= ' ' || code == 0x7f) return 0;
    if (code >= 'A' && code <= 'Z') return code + 32;
    const bool letter = (code >= 'a' && code <= 'z') || (code >= '0' && code <= '9');
    return letter || code == kApostrophe ? code : 0;
  }
  if (code == 0x2018 || code == 0x2019) return kApostrophe;
  // Spaces, dashes, quotation marks, dots of general punctuation.
  if (code == 0xa0 || code == 0xab || code == 0xbb || code == 0x3000) return 0;
  if (code >= 0x2000 && code <= 0x206f) return 0;
  if (code >= 0x3001 && code <= 0x3003) return 0;
  if (code >= 0xc0 && code <= 0xde && code != 0xd7) return code + 32;
  if (code >= 0x391 && code <= 0x3a9 && code != 0x3a2) return code + 32;
  if (code >= 0x410 && code <= 0x42f) return code + 32;
  return code;
}

void appendLetter(std::string& out, std::uint32_t code) {
  if (code < 0x80) {
    out += static_cast<char>(code);
    return;
  }
  if (code >= 0x800) {
    if (code >= 0x10000) out += static_cast<char>(0xf0 | code >> 18);
    out += static_cast<char>(code >= 0x10000 ? 0x80 | (code >> 12 & 0x3f) : 0xe0 | code >> 12);
    out += static_cast<char>(0x80 | (code >> 6 & 0x3f));
  } else {
    out += static_cast<char>(0xc0 | code >> 6);
  }
  out += static_cast<char>(0x80 | (code & 0x3f));
}

}  // namespace

WordIndex::WordIndex(std::string_view lines, std::int64_t vocabulary) {
  std::int64_t number = 0;
  while (!lines.empty() && number < vocabulary) {
    const std::size_t end = std::min(lines.find('\n'), lines.size());
    if (end > 0) numbers_.emplace(lines.substr(0, end), number);
    lines.remove_prefix(std::min(end + 1, lines.size()));
    ++number;
  }
}

std::vector<TextWord> WordIndex::split(std::string_view text) const {
  std::vector<TextWord> words;
  std::string word;
  std::size_t start = 0;
  std::size_t place = 0;
  const auto finish = [&] {
    if (word.empty()) return;
    auto found = numbers_.find(word);
    // In quotation marks, rather than a word with an apostrophe.
    if (found == numbers_.end() && (word.front() == '\'' || word.back() == '\'')) {
      std::string_view inner = word;
      while (inner.starts_with('\'')) inner.remove_prefix(1);
      while (inner.ends_with('\'')) inner.remove_suffix(1);
      found = numbers_.find(inner);
    }
    const bool known = found != numbers_.end();
    const bool letters = word.find_first_not_of('\'') != std::string::npos;
    if (letters) words.push_back({start, place, known ? found->second : kUnknown, known});
    word.clear();
  };
  for (std::size_t at = 0; at < text.size(); ++place) {
    const CodePoint point = codePointAt(text, at);
    const std::uint32_t letter = foldedLetter(point.code);
    if (letter == 0) {
      finish();
    } else {
      if (word.empty()) start = place;
      appendLetter(word, letter);
    }
    at += point.bytes;
  }
  finish();
  return words;
}

std::size_t appendSample(const std::vector<TextWord>& words, std::int64_t length,
                         std::vector<std::int64_t>& out) {
  const auto room = static_cast<std::size_t>(length);
  const std::size_t all = words.size() + 1;
  const std::size_t first = all > room ? all - room : 0;  // 0 is the start
  out.insert(out.end(), room - std::min(all, room), WordIndex::kPad);
  if (first == 0 && room > 0) out.push_back(WordIndex::kStart);
  const std::size_t left_out = first > 0 ? first - 1 : 0;
  for (std::size_t i = left_out; i < words.size(); ++i) out.push_back(words[i].number);
  return left_out;
}

}  // namespace dure::serve
