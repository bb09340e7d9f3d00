#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"

namespace dure::serve {

// A word of a text: where it stands, in code points, and its number.
struct TextWord {
  std::size_t start = 0;
  std::size_t end = 0;
  std::int64_t number = 0;
  bool known = false;
};

// The words that a model knows, by the convention of Keras' data sets: 0 pads, 1 begins a text, 2
// stands for what is unknown.
class WordIndex {
 public:
  static constexpr std::int64_t kPad = 0;
  static constexpr std::int64_t kStart = 1;
  static constexpr std::int64_t kUnknown = 2;

  WordIndex() = default;
  // `lines` has a word a line, from number 0 on; those without one are empty. Words from
  // `vocabulary` on are left out.
  WordIndex(std::string_view lines, std::int64_t vocabulary);

  bool empty() const { return numbers_.empty(); }
  std::int64_t size() const { return static_cast<std::int64_t>(numbers_.size()); }

  // As Keras' tokenizer splits: at white space and punctuation but the apostrophe, in small
  // letters.
  std::vector<TextWord> split(std::string_view text) const;

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>()(text);
    }
  };
  std::unordered_map<std::string, std::int64_t, Hash, std::equal_to<>> numbers_;
};

// The numbers of `words` as a sample of `length`: the start, the words, padded in front; of a text
// that is too long the end counts. Appended to `out`. Returns how many words at the beginning were
// left out.
std::size_t appendSample(const std::vector<TextWord>& words, std::int64_t length,
                         std::vector<std::int64_t>& out);

}  // namespace dure::serve
