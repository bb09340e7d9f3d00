#include "serve/word_index.h"

#include <gtest/gtest.h>

namespace dure::serve {
namespace {

const WordIndex& index() {
  static const WordIndex made("\n\n\n\nthe\nfilm\ngreat\ndon't\nbr\ncafé\nlost", 10);
  return made;
}

std::vector<std::int64_t> numbersOf(const std::string& text) {
  std::vector<std::int64_t> numbers;
  for (const TextWord& word : index().split(text)) numbers.push_back(word.number);
  return numbers;
}

TEST(WordIndex, SplitsAsKerasDoes) {
  EXPECT_EQ(numbersOf("The film, GREAT!"), (std::vector<std::int64_t>{4, 5, 6}));
  EXPECT_EQ(numbersOf("don't<br />the"), (std::vector<std::int64_t>{7, 8, 4}));
  EXPECT_EQ(numbersOf("don’t — “film”"), (std::vector<std::int64_t>{7, 5}));
  EXPECT_EQ(numbersOf("CAFÉ 'great' xyzzy"),
            (std::vector<std::int64_t>{9, 6, WordIndex::kUnknown}));
  EXPECT_EQ(numbersOf("  ... ''"), std::vector<std::int64_t>{});
}

TEST(WordIndex, LeavesOutWordsBeyondTheVocabulary) {
  EXPECT_EQ(index().size(), 6);
  EXPECT_FALSE(index().split("lost")[0].known);
}

TEST(WordIndex, CountsPlacesInCodePoints) {
  const auto words = index().split("😀é great");
  ASSERT_EQ(words.size(), 2u);
  EXPECT_EQ(words[1].start, 3u);
  EXPECT_EQ(words[1].end, 8u);
}

TEST(WordIndex, PadsInFrontAndKeepsTheEnd) {
  std::vector<std::int64_t> out;
  EXPECT_EQ(appendSample(index().split("the film"), 5, out), 0u);
  EXPECT_EQ(out, (std::vector<std::int64_t>{0, 0, 1, 4, 5}));
  out.clear();
  EXPECT_EQ(appendSample(index().split("the film great the"), 3, out), 1u);
  EXPECT_EQ(out, (std::vector<std::int64_t>{5, 6, 4}));
}

}  // namespace
}  // namespace dure::serve
