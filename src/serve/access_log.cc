#include "serve/access_log.h"

#include <fcntl.h>

#include <fmt/core.h>

#include "base/clock.h"
#include "base/files.h"
#include "serve/json_reader.h"

namespace dure::serve {

Result<std::unique_ptr<AccessLog>> AccessLog::open(const std::string& path) {
  Fd fd(path == "-" ? dup(STDOUT_FILENO)
                    : ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644));
  if (!fd) return systemError("open " + path);
  return std::unique_ptr<AccessLog>(new AccessLog(std::move(fd)));
}

void AccessLog::write(const AccessEntry& entry) {
  std::string line = "{\"time\": ";
  appendJsonString(line, formatTime(std::chrono::system_clock::now()));
  line += ", \"client\": ";
  appendJsonString(line, entry.client);
  line += ", \"method\": ";
  appendJsonString(line, entry.method);
  line += ", \"path\": ";
  appendJsonString(line, entry.target);
  fmt::format_to(std::back_inserter(line), ", \"status\": {}, \"bytes\": {}, \"ms\": {:.3f}}}\n",
                 entry.status, entry.bytes,
                 std::chrono::duration<double, std::milli>(entry.took).count());
  const std::lock_guard lock(mutex_);
  static_cast<void>(writeAll(fd_.get(), line));
}

}  // namespace dure::serve
