#include "agent/agent_socket.h"

#include <fcntl.h>

#include <fmt/core.h>

namespace dure::agent {

Result<AgentSocketName> agentSocketName(const std::string& directory) {
  Fd fd(open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return systemError("open " + directory);
  // Without /proc, as in an empty root file system, only the long way is left.
  const std::string link = fmt::format("/proc/self/fd/{}", fd.get());
  const std::string base = access(link.c_str(), F_OK) == 0 ? link : directory;
  return AgentSocketName{std::move(fd), base + "/" + kAgentSocket};
}

}  // namespace dure::agent
