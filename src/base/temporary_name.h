#pragma once

#include <string>

namespace dure {

// A name beside `path` that nobody else uses, not in another pod either, where processes have the
// same numbers.
std::string temporaryName(const std::string& path);

}  // namespace dure
