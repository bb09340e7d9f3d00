#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "spec/tree.h"

namespace dure::spec {

// What a document may be made of. Aliases count as often as they are used, so that a small text
// cannot become a large tree.
inline constexpr int kMaxDepth = 64;
inline constexpr std::size_t kMaxNodes = 100'000;
inline constexpr std::size_t kMaxTextBytes = 8u << 20;

// The one YAML document in `text`; nothing, and one more finding, if there is none or it is broken.
// Any bytes at all are safe to give. Positions get `source`, and with a source other than 0 no
// lines.
std::optional<TreeNode> readTree(std::string_view text, int source, std::vector<Finding>& findings);

}  // namespace dure::spec
