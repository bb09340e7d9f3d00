#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "spec/tree.h"

namespace dure::spec {

// All of `text` as a whole number; one too large for the type becomes the largest.
std::optional<std::int64_t> readInteger(std::string_view text);
// All of `text` as a finite number.
std::optional<double> readNumber(std::string_view text);

// For the end of a message: `"two"`, `-2`, `a list`.
std::string describeNode(const TreeNode& node);

}  // namespace dure::spec
