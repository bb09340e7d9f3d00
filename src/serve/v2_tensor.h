#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace dure::serve {

// Types of the Open Inference Protocol: "FP32", "INT64", "BYTES", …
enum class V2Type { kBool, kU8, kU16, kU32, kU64, kI8, kI16, kI32, kI64, kF16, kF32, kF64, kBytes };

// Invalid for other words.
Result<V2Type> v2TypeNamed(std::string_view name);
// 0 for kBytes.
std::size_t v2Size(V2Type type);

// The numbers of a tensor in binary form, little-endian; Invalid if there are more or fewer bytes
// than `count` of them take.
Result<std::vector<float>> decodeNumbers(V2Type type, std::string_view bytes, std::int64_t count);
// The elements of a BYTES tensor: each a length of 4 bytes, little-endian, and so many bytes.
Result<std::vector<std::string>> decodeBytes(std::string_view bytes, std::int64_t count);

}  // namespace dure::serve
