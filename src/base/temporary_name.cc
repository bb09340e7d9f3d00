#include "base/temporary_name.h"

#include <fmt/core.h>

#include "base/process.h"

namespace dure {

std::string temporaryName(const std::string& path) {
  return fmt::format("{}.{}.tmp", path, randomToken().substr(0, 16));
}

}  // namespace dure
