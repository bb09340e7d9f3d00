#include "plan/inventory.h"

#include <string_view>

namespace dure::plan {
namespace {

bool isDigit(char c) { return c >= '0' && c <= '9'; }

// The digits at `at`, without leading zeros; `at` is moved behind them.
std::string_view takeNumber(std::string_view text, std::size_t& at) {
  while (at < text.size() && text[at] == '0') ++at;
  const std::size_t from = at;
  while (at < text.size() && isDigit(text[at])) ++at;
  return text.substr(from, at - from);
}

}  // namespace

std::int64_t addUp(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  if (!__builtin_add_overflow(a, b, &sum)) return sum;
  return a > 0 ? kUnlimited : -kUnlimited;
}

std::int64_t Amounts::count(const std::string& resource) const {
  for (const NamedAmount& other : others) {
    if (other.resource == resource) return other.count;
  }
  return 0;
}

void Amounts::add(const std::string& resource, std::int64_t count) {
  for (NamedAmount& other : others) {
    if (other.resource != resource) continue;
    other.count = addUp(other.count, count);
    return;
  }
  others.push_back({resource, count});
}

bool nameBefore(const std::string& a, const std::string& b) {
  std::size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (isDigit(a[i]) && isDigit(b[j])) {
      const std::string_view x = takeNumber(a, i), y = takeNumber(b, j);
      if (x.size() != y.size()) return x.size() < y.size();
      if (x != y) return x < y;
    } else if (a[i] != b[j]) {
      return a[i] < b[j];
    } else {
      ++i;
      ++j;
    }
  }
  if ((i < a.size()) != (j < b.size())) return j < b.size();
  // Only the zeros in front of numbers differ.
  return a < b;
}

}  // namespace dure::plan
