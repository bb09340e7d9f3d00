#pragma once

#include <string>

#include "gang/gang.h"

namespace dure::coordinator {

// For the log: what was seen, and what is done about it. Neither says anything of a program's
// environment or arguments. Empty for what is not worth a line: that time has passed.
std::string described(const gang::Seen& seen);
std::string described(const gang::Action& action);

}  // namespace dure::coordinator
