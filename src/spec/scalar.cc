#include "spec/scalar.h"

#include <fmt/core.h>

#include <charconv>
#include <cmath>
#include <limits>

namespace dure::spec {
namespace {

bool looksNumeric(std::string_view text) {
  return !text.empty() && text.find_first_not_of("+-.0123456789eE_") == std::string_view::npos &&
         text.find_first_of("0123456789") != std::string_view::npos;
}

std::string_view withoutPlus(std::string_view text) {
  return text.size() > 1 && text[0] == '+' && text[1] != '-' ? text.substr(1) : text;
}

}  // namespace

std::optional<std::int64_t> readInteger(std::string_view text) {
  text = withoutPlus(text);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || end != text.data() + text.size()) return std::nullopt;
  if (error == std::errc::result_out_of_range) {
    return text[0] == '-' ? std::numeric_limits<std::int64_t>::min()
                          : std::numeric_limits<std::int64_t>::max();
  }
  return error == std::errc() ? std::optional(value) : std::nullopt;
}

std::optional<double> readNumber(std::string_view text) {
  text = withoutPlus(text);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
    return std::nullopt;
  }
  return value;
}

std::string describeNode(const TreeNode& node) {
  constexpr std::size_t kLongest = 60;
  switch (node.kind) {
    case TreeNode::Kind::kNothing:
      return "nothing";
    case TreeNode::Kind::kList:
      return "a list";
    case TreeNode::Kind::kMap:
      return "a map";
    case TreeNode::Kind::kScalar:
      break;
  }
  if (looksNumeric(node.text) && node.text.size() <= kLongest) {
    return node.quoted ? fmt::format("the text \"{}\"", node.text) : node.text;
  }
  if (node.text.size() <= kLongest) return fmt::format("\"{}\"", node.text);
  std::size_t cut = kLongest;
  while (cut > 0 && (static_cast<unsigned char>(node.text[cut]) & 0xC0u) == 0x80) --cut;
  return fmt::format("\"{}…\"", node.text.substr(0, cut));
}

}  // namespace dure::spec
