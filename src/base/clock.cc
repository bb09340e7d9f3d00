#include "base/clock.h"

#include <fmt/core.h>

#include <cstdio>
#include <ctime>

namespace dure {

std::string formatTime(TimePoint time) {
  const auto since = std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch());
  const std::time_t seconds = since.count() / 1000;
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", parts.tm_year + 1900,
                     parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                     since.count() % 1000);
}

TimePoint parseTime(const std::string& text) {
  std::tm parts{};
  int millis = 0;
  if (std::sscanf(text.c_str(), "%4d-%2d-%2dT%2d:%2d:%2d.%3dZ", &parts.tm_year, &parts.tm_mon,
                  &parts.tm_mday, &parts.tm_hour, &parts.tm_min, &parts.tm_sec, &millis) != 7) {
    return {};
  }
  parts.tm_year -= 1900;
  parts.tm_mon -= 1;
  const TimePoint time = std::chrono::system_clock::from_time_t(timegm(&parts)) + Duration(millis);
  return formatTime(time) == text ? time : TimePoint{};
}

}  // namespace dure
