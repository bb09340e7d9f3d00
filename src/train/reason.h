#pragma once

#include <exception>
#include <string>

namespace dure::train {

// What an exception of torch or of a user's module says, in one line. The rest is about torch's own
// code, or where the module was.
std::string reasonOf(const std::exception& error);

}  // namespace dure::train
