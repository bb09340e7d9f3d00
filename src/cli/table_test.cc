#include "cli/table.h"

#include <gtest/gtest.h>

namespace dure::cli {
namespace {

TEST(Table, ColumnsAreLinedUpWithTwoBlanksBetween) {
  EXPECT_EQ(formatTable({{"RUN", "STATUS", "WHY"}, {"train.12", "failed", "it broke"}}),
            "RUN       STATUS  WHY\n"
            "train.12  failed  it broke\n");
}

TEST(Table, NoLineEndsInBlanks) {
  EXPECT_EQ(formatTable({{"RUN", "WHY"}, {"a", ""}, {"b", "because"}}),
            "RUN  WHY\n"
            "a\n"
            "b    because\n");
}

TEST(Table, CharactersAreCountedNotBytes) {
  EXPECT_EQ(formatTable({{"é", "1"}, {"ab", "2"}}), "é   1\nab  2\n");
}

TEST(Table, RowsMayHaveDifferentLengths) {
  EXPECT_EQ(formatTable({{"a"}, {"bb", "c", "d"}, {}}), "a\nbb  c  d\n\n");
  EXPECT_EQ(formatTable({}), "");
}

}  // namespace
}  // namespace dure::cli
