#include "base/log.h"

#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dure {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

class LogTest : public ::testing::Test {
 protected:
  ~LogTest() override {
    setLogLevel(LogLevel::kWarn);
    unsetenv(kLogVariable);
  }

  // What a line of every level leaves on standard error.
  std::string written(LogLevel level) {
    setLogLevel(level);
    testing::internal::CaptureStderr();
    logDebug("part", "a {}", 1);
    logInfo("part", "b {}", 2);
    logWarn("part", "c {}", 3);
    return testing::internal::GetCapturedStderr();
  }
};

TEST_F(LogTest, WritesTimeLevelPartAndWords) {
  EXPECT_THAT(written(LogLevel::kWarn),
              MatchesRegex(
                  "[0-9]+-[0-9]+-[0-9]+T[0-9]+:[0-9]+:[0-9]+\\.[0-9][0-9][0-9]Z warn part: c 3\n"));
}

TEST_F(LogTest, WritesWhatIsOfTheLevelOrAbove) {
  EXPECT_THAT(written(LogLevel::kDebug),
              MatchesRegex(".* debug part: a 1\n.* info part: b 2\n.* warn part: c 3\n"));
  EXPECT_THAT(written(LogLevel::kInfo), MatchesRegex(".* info part: b 2\n.* warn part: c 3\n"));
  EXPECT_EQ(written(LogLevel::kError), "");
  EXPECT_EQ(written(LogLevel::kOff), "");
}

TEST_F(LogTest, KeepsALineOneLine) {
  testing::internal::CaptureStderr();
  logWarn("part", "{}", "one\ntwo\x1b[31m");
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr(" part: one\\ntwo?[31m\n"));
}

TEST_F(LogTest, TakesTheLevelFromTheEnvironment) {
  setenv(kLogVariable, "debug", 1);
  ASSERT_TRUE(setLogLevelFromEnvironment());
  EXPECT_TRUE(isLogged(LogLevel::kDebug));
  setenv(kLogVariable, "off", 1);
  ASSERT_TRUE(setLogLevelFromEnvironment());
  EXPECT_FALSE(isLogged(LogLevel::kError));
}

TEST_F(LogTest, RefusesAnotherWordForALevel) {
  setenv(kLogVariable, "loud", 1);
  const auto status = setLogLevelFromEnvironment();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), Code::kInvalid);
  EXPECT_EQ(status.error().message(),
            "DURE_LOG: must be debug, info, warn, error or off, got \"loud\"");
  EXPECT_TRUE(isLogged(LogLevel::kWarn));
  EXPECT_FALSE(isLogged(LogLevel::kInfo));
}

}  // namespace
}  // namespace dure
