#include "protocol/report.h"

#include <gtest/gtest.h>

namespace dure::protocol {
namespace {

std::string nested(int depth) {
  return "{\"a\":" + std::string(static_cast<std::size_t>(depth), '[') +
         std::string(static_cast<std::size_t>(depth), ']') + "}";
}

TEST(Report, AnObjectIsReadAndNothingElse) {
  EXPECT_TRUE(parseReport(R"({"step": 3})"));
  for (const char* line : {"", "3", "[1]", "\"a\"", "null", "{", "{\"a\":}", "\xff", "text"}) {
    EXPECT_FALSE(parseReport(line)) << line;
  }
}

TEST(Report, WhatIsTooDeepOrTooLongIsRefusedWithTheReason) {
  EXPECT_TRUE(parseReport(nested(kDeepestReport - 1)));
  for (const int depth : {kDeepestReport, 100'000}) {
    const std::string line = nested(depth).substr(0, kLargestReport);
    const Status checked = checkReport(line);
    ASSERT_FALSE(checked);
    EXPECT_EQ(checked.error().message(), "nested more than 64 deep");
    EXPECT_FALSE(parseReport(line));
  }
  const std::string longest = "{\"a\":\"" + std::string(kLargestReport - 8, 'x') + "\"}";
  EXPECT_TRUE(parseReport(longest));
  EXPECT_EQ(checkReport(longest + " ").error().message(), "longer than 64 KB");
}

TEST(Report, BracketsInTextAreNoDepth) {
  EXPECT_TRUE(
      parseReport("{\"a\":\"" + std::string(1000, '[') + "\\\"" + std::string(1000, '{') + "\"}"));
}

TEST(Report, ANumberIsANumberOrNothing) {
  const auto report = *parseReport(
      R"({"step": 7, "loss": 0.5, "rank": "0", "none": null, "list": [1], "large": 1e300})");
  EXPECT_EQ(wholeIn(report, "step"), 7);
  EXPECT_EQ(numberIn(report, "step"), 7.0);
  EXPECT_EQ(numberIn(report, "loss"), 0.5);
  EXPECT_FALSE(wholeIn(report, "loss"));
  EXPECT_FALSE(wholeIn(report, "large"));
  for (const char* name : {"rank", "none", "list", "missing"}) {
    EXPECT_FALSE(numberIn(report, name)) << name;
    EXPECT_FALSE(wholeIn(report, name)) << name;
  }
}

}  // namespace
}  // namespace dure::protocol
