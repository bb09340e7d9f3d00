#include "kube/timestamp.h"

#include <gmock/gmock.h>

namespace dure::kube {
namespace {

TEST(TimestampTest, IsReadInEveryFormThatIsWritten) {
  const TimePoint time = parseTime("2026-11-15T20:01:02.000Z");
  EXPECT_EQ(parseTimestamp("2026-11-15T20:01:02Z"), time);
  EXPECT_EQ(parseTimestamp("2026-11-15T21:31:02+01:30"), time);
  EXPECT_EQ(parseTimestamp("2026-11-15T15:01:02-05:00"), time);
  EXPECT_EQ(parseTimestamp("2026-11-15T20:01:02.250000Z"), time + Duration(250));
  EXPECT_EQ(parseTimestamp("9999-12-31T23:59:59Z"), TimePoint::max());
}

TEST(TimestampTest, AnythingElseIsNone) {
  for (const char* text : {"", "now", "2026-11-15", "2026-11-15T20:01:02", "2026-11-15T20:01:02X",
                           "2026-11-15T20:01:02.Z5", "2026-11-15T20:01:02 01:00"}) {
    EXPECT_EQ(parseTimestamp(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace dure::kube
