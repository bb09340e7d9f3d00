#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "base/result.h"

namespace dure::format {

// The JSON value that `text` is. Invalid, as "NAME: at offset 12: …", if it is none, if an object
// has a key twice, or if it is nested deeper than anything we read.
Result<nlohmann::json> parseJson(const std::string& name, std::string_view text);

// The text under `key`, or "" if there is none or it is something else.
std::string textAt(const nlohmann::json& object, const char* key);

}  // namespace dure::format
