#include "protocol/report.h"

#include <fmt/core.h>

namespace dure::protocol {
namespace {

// How deep brackets go, as far as that can be told without reading the rest: in text that is no
// JSON it may be anything, which does no harm.
int depthOf(std::string_view line) {
  int depth = 0;
  int deepest = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quoted) {
      if (c == '\\') ++i;
      if (c == '"') quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == '[' || c == '{') {
      deepest = std::max(deepest, ++depth);
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return deepest;
}

}  // namespace

Status checkReport(std::string_view line) {
  if (line.size() > kLargestReport) {
    return Error(Code::kInvalid, fmt::format("longer than {} KB", kLargestReport >> 10u));
  }
  if (depthOf(line) > kDeepestReport) {
    return Error(Code::kInvalid, fmt::format("nested more than {} deep", kDeepestReport));
  }
  return {};
}

std::optional<nlohmann::json> parseReport(std::string_view line) {
  if (!checkReport(line)) return std::nullopt;
  nlohmann::json report = nlohmann::json::parse(line, nullptr, false);
  if (!report.is_object()) return std::nullopt;
  return report;
}

std::optional<double> numberIn(const nlohmann::json& report, const char* name) {
  const auto member = report.find(name);
  if (member == report.end() || !member->is_number()) return std::nullopt;
  return member->get<double>();
}

std::optional<std::int64_t> wholeIn(const nlohmann::json& report, const char* name) {
  const auto member = report.find(name);
  if (member == report.end() || !member->is_number_integer()) return std::nullopt;
  return member->get<std::int64_t>();
}

}  // namespace dure::protocol
