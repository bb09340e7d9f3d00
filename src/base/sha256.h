#pragma once

#include <string>
#include <string_view>

namespace dure {

// The SHA-256 of the bytes, in 64 hexadecimal digits.
std::string sha256Hex(std::string_view bytes);

}  // namespace dure
