#pragma once

#include <functional>
#include <string>

#include "base/result.h"
#include "format/mapped_file.h"

namespace dure::format {

// Lets `make` write to the descriptor it is given, in a process of its own, and gives what it
// wrote. For libraries that a damaged file can make crash: then that process ends, and this one
// says Invalid, "NAME is damaged: …". The error that `make` returns is given as it is. It must take
// no lock that another thread may hold at this moment.
Result<FileBytes> makeApart(const std::string& name, const std::function<Status(int fd)>& make);

}  // namespace dure::format
