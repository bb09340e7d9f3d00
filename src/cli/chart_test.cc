#include "cli/chart.h"

#include <gmock/gmock.h>

#include <limits>

namespace dure::cli {
namespace {

using testing::HasSubstr;

TEST(ChartTest, AFallingCurveGoesFromTheTopLeftToTheBottomRight) {
  EXPECT_EQ(drawCurve({{0, 2}, {100, 1}}, 3, 2),
            "        2 │⠁  \n"
            "        1 │  ⢀\n"
            "          └step 0100\n");
}

TEST(ChartTest, ALevelCurveAndOneWithoutPointsAreDrawn) {
  EXPECT_EQ(drawCurve({}, 10, 4), "");
  EXPECT_EQ(drawCurve({{1, 1}}, 10, 4), "");
  EXPECT_THAT(drawCurve({{1, 0.5}, {2, 0.5}}, 10, 4), HasSubstr("0.5"));
}

TEST(ChartTest, ABarIsAsLongAsItsPart) {
  EXPECT_EQ(drawBar(0, 4), "▕    ▏");
  EXPECT_EQ(drawBar(0.5, 4), "▕██  ▏");
  EXPECT_EQ(drawBar(0.625, 4), "▕██▌ ▏");
  EXPECT_EQ(drawBar(1, 4), "▕████▏");
  EXPECT_EQ(drawBar(7, 4), "▕████▏");
}

TEST(ChartTest, NumbersAtTheEndsOfTheirRangeAreDrawnToo) {
  EXPECT_FALSE(drawCurve({{1, 1e308}, {2, -1e308}, {3, 0}}, 20, 4).empty());
  EXPECT_FALSE(drawCurve({{std::numeric_limits<std::int64_t>::min(), 1},
                          {std::numeric_limits<std::int64_t>::max(), 2}},
                         20, 4)
                   .empty());
}

}  // namespace
}  // namespace dure::cli
