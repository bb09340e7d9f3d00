#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include <nlohmann/json.hpp>

#include "base/result.h"

// What a rank reports of its progress: one line of its pipe of metrics. A program writes what it
// likes there, so everything that reads such lines reads them by this.
namespace dure::protocol {

inline constexpr std::size_t kLargestReport = std::size_t{64} << 10;
inline constexpr int kDeepestReport = 64;

// Invalid, with the reason, for a line that is too long or nested too deep to be worked with.
Status checkReport(std::string_view line);

// The object that the line is; nothing if it is no JSON object, or checkReport() refuses it.
std::optional<nlohmann::json> parseReport(std::string_view line);

// The member of this name; nothing if there is none, or it is no number.
std::optional<double> numberIn(const nlohmann::json& report, const char* name);
// The same for whole numbers alone.
std::optional<std::int64_t> wholeIn(const nlohmann::json& report, const char* name);

}  // namespace dure::protocol
