#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace dure::kube {

std::string toBase64(std::string_view bytes);
// White space between the letters is passed over.
Result<std::string> fromBase64(std::string_view text);

}  // namespace dure::kube
