#pragma once

#include <algorithm>
#include <cstddef>

namespace dure::collective {

// Parts begin at whole lines.
inline constexpr std::size_t kLine = 64;

// [offset, offset + bytes) of what is reduced.
struct Range {
  std::size_t offset;
  std::size_t bytes;
};

// What number `part` of `parts` reduces for all.
inline Range partOf(std::size_t bytes, int part, int parts) {
  const auto count = static_cast<std::size_t>(parts);
  const std::size_t each = (bytes + count * kLine - 1) / (count * kLine) * kLine;
  const std::size_t begin = std::min(bytes, each * static_cast<std::size_t>(part));
  return {begin, std::min(each, bytes - begin)};
}

}  // namespace dure::collective
