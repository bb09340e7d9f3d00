#pragma once

#include <string>
#include <vector>

namespace dure::cli {

// Rows with their columns lined up, two blanks between them; the last column is not padded. Widths
// are counted in characters, not bytes.
std::string formatTable(const std::vector<std::vector<std::string>>& rows);

}  // namespace dure::cli
