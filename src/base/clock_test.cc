#include "base/clock.h"

#include <gtest/gtest.h>

#include <random>

namespace dure {
namespace {

using std::chrono::seconds;

TEST(Time, IsWrittenInUtcWithMilliseconds) {
  EXPECT_EQ(formatTime(TimePoint{}), "1970-01-01T00:00:00.000Z");
  // date -u -d @1794772862 +%FT%TZ
  EXPECT_EQ(formatTime(TimePoint(seconds(1794772862)) + Duration(345)), "2026-11-15T20:01:02.345Z");
  // A leap day.
  EXPECT_EQ(formatTime(TimePoint(seconds(951827696)) + Duration(7)), "2000-02-29T12:34:56.007Z");
}

TEST(Time, ComesBackFromItsTextAsItWas) {
  std::mt19937_64 random(1);
  std::uniform_int_distribution<std::int64_t> millis(0, 4'000'000'000'000);
  for (int i = 0; i < 1000; ++i) {
    const TimePoint time{Duration(millis(random))};
    EXPECT_EQ(parseTime(formatTime(time)), time) << formatTime(time);
  }
}

TEST(Time, WhatIsFinerThanAMillisecondIsDropped) {
  const TimePoint time = TimePoint(Duration(1500)) + std::chrono::microseconds(999);
  EXPECT_EQ(parseTime(formatTime(time)), TimePoint(Duration(1500)));
}

TEST(Time, TextThatIsNoTimeIsTheEpoch) {
  for (const char* text : {"", "yesterday", "2026-11-15", "2026-11-15 20:01:02.345Z",
                           "2026-11-15T20:01:02Z", "T20:01:02.345Z", "2026-11-15T20:01"}) {
    EXPECT_EQ(parseTime(text), TimePoint{}) << text;
  }
}

TEST(FakeClock, MovesOnlyWhenItIsMoved) {
  FakeClock clock;
  const TimePoint before = clock.now();
  EXPECT_EQ(clock.now(), before);
  clock.advance(Duration(1500));
  EXPECT_EQ(clock.now() - before, Duration(1500));
  // A time of zero means "never" in places, so it does not begin there.
  EXPECT_NE(before, TimePoint{});
}

TEST(Time, TextThatOnlyBeginsLikeATimeIsTheEpoch) {
  for (const char* text : {"2026-11-15T20:01:02.345", "2026-11-15T20:01:02.345Zjunk",
                           "2026-13-45T99:99:99.345Z", "2026-11-15T20:01:02.345+09:00"}) {
    EXPECT_EQ(parseTime(text), TimePoint{}) << text;
  }
}

}  // namespace
}  // namespace dure
