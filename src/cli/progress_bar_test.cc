#include "cli/progress_bar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dure::cli {
namespace {

using std::chrono::duration;
using testing::HasSubstr;

TEST(ProgressLine, ShowsHowFarAndHowFast) {
  EXPECT_THAT(progressLine("copy", 0, 100, duration<double>(0)), HasSubstr("[----"));
  const std::string half = progressLine("copy", 500'000'000, 1'000'000'000, duration<double>(2));
  EXPECT_THAT(half, HasSubstr("copy  [###############---------------]  50%"));
  EXPECT_THAT(half, HasSubstr("250 MB/s"));
  EXPECT_THAT(progressLine("copy", 7, 7, duration<double>(0)), HasSubstr("#] 100%"));
  EXPECT_THAT(progressLine("copy", 0, 0, duration<double>(0)), HasSubstr("100%"));
}

}  // namespace
}  // namespace dure::cli
