#pragma once

#include <string_view>

#include "base/result.h"
#include "serve/image_input.h"

namespace dure::serve {

bool isJpeg(std::string_view bytes);
// Invalid for a damaged one, and for one of more pixels than `most`.
Result<Picture> decodeJpeg(std::string_view bytes, std::int64_t most);

}  // namespace dure::serve
