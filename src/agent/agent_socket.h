#pragma once

#include <string>

#include "base/fd.h"
#include "base/result.h"

namespace dure::agent {

// In a task's directory: where programs of the task reach its agent.
inline constexpr const char* kAgentSocket = "agent.sock";

// A name for the socket that is short enough for any directory: the system takes 107 bytes at most,
// and the directories of people are longer. Valid as long as `directory` is open.
struct AgentSocketName {
  Fd directory;
  std::string path;
};
Result<AgentSocketName> agentSocketName(const std::string& directory);

}  // namespace dure::agent
