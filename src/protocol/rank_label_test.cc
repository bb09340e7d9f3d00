#include "protocol/rank_label.h"

#include <gtest/gtest.h>

namespace dure::protocol {
namespace {

TEST(RankLabel, IsTakenOffAsItWasPutOn) {
  for (const int rank : {0, 2, 1234}) {
    const std::string labelled = rankLabel(rank) + "[7] loss 0.3\n";
    std::string_view line = labelled;
    EXPECT_EQ(takeRankLabel(line, 5), rank);
    EXPECT_EQ(line, "[7] loss 0.3\n");
  }
}

TEST(RankLabel, ALineWithoutOneIsLeftAsItIs) {
  for (const char* text : {"", "[", "[2", "[2]", "[2]x", "[x] y", "2] y", "[] y", "plain"}) {
    std::string_view line = text;
    EXPECT_EQ(takeRankLabel(line, 5), 5) << text;
    EXPECT_EQ(line, text);
  }
}

}  // namespace
}  // namespace dure::protocol
