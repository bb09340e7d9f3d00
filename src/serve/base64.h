#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace dure::serve {

// The bytes that `text` stands for: the alphabet of RFC 4648 or that for addresses, padding
// optional. Invalid for any other letter, white space included, and for a length that no bytes
// have.
Result<std::string> decodeBase64(std::string_view text);

}  // namespace dure::serve
