#pragma once

#include <string>
#include <string_view>

namespace dure::protocol {

// What stands before each line of a rank where several print to one place: "[2] ".
std::string rankLabel(int rank);
// Takes the label off the line and gives its rank; `otherwise` if it has none.
int takeRankLabel(std::string_view& line, int otherwise);

}  // namespace dure::protocol
