#include "kube/timestamp.h"

#include <cstdio>
#include <cstdlib>
#include <ctime>

namespace dure::kube {

std::optional<TimePoint> parseTimestamp(const std::string& text) {
  std::tm parts{};
  int length = 0;
  if (std::sscanf(text.c_str(), "%4d-%2d-%2dT%2d:%2d:%2d%n", &parts.tm_year, &parts.tm_mon,
                  &parts.tm_mday, &parts.tm_hour, &parts.tm_min, &parts.tm_sec, &length) != 6) {
    return std::nullopt;
  }
  const char* rest = text.c_str() + length;
  double fraction = 0;
  if (*rest == '.') {
    char* end = nullptr;
    fraction = std::strtod(rest, &end);
    rest = end;
  }
  int hours = 0, minutes = 0;
  char sign = '+';
  const bool is_utc = std::string_view(rest) == "Z";
  if (!is_utc && std::sscanf(rest, "%c%2d:%2d", &sign, &hours, &minutes) != 3) return std::nullopt;
  if (!is_utc && sign != '+' && sign != '-') return std::nullopt;
  constexpr int kLastYear = 2261;
  if (parts.tm_year > kLastYear) return TimePoint::max();
  parts.tm_year -= 1900;
  parts.tm_mon -= 1;
  const int offset = (hours * 60 + minutes) * 60 * (sign == '-' ? -1 : 1);
  return std::chrono::system_clock::from_time_t(timegm(&parts) - offset) +
         Duration(static_cast<std::int64_t>(fraction * 1000));
}

}  // namespace dure::kube
