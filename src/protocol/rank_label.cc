#include "protocol/rank_label.h"

#include <charconv>

#include <fmt/core.h>

namespace dure::protocol {

std::string rankLabel(int rank) { return fmt::format("[{}] ", rank); }

int takeRankLabel(std::string_view& line, int otherwise) {
  constexpr std::string_view kEnd = "] ";
  if (!line.starts_with('[')) return otherwise;
  int rank = 0;
  const char* const last = line.data() + line.size();
  const auto [end, error] = std::from_chars(line.data() + 1, last, rank);
  if (error != std::errc() || !std::string_view(end, last).starts_with(kEnd)) return otherwise;
  line.remove_prefix(static_cast<std::size_t>(end - line.data()) + kEnd.size());
  return rank;
}

}  // namespace dure::protocol
