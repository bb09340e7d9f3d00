#pragma once

#include <functional>
#include <string>

#include "base/result.h"
#include "format/mapped_file.h"

namespace dure::format {

// Runs `make` in a process of its own, where it writes to the descriptor, and returns what it
// wrote. For libraries that a damaged file can make crash: then that process ends, and this one
// returns Invalid, "NAME is damaged: …". Passes on the error that `make` returns. `make` must take
// no lock that another thread may hold at this moment.
Result<FileBytes> makeInSandbox(const std::string& name, const std::function<Status(int fd)>& make);

}  // namespace dure::format
