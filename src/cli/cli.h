#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace dure::cli {

// What people call: the arguments without the program's name. Returns the exit code.
int run(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err);

}  // namespace dure::cli
