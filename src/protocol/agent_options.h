#pragma once

#include <signal.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace dure::protocol {

// The options of an agent. They stand in the agent's environment, and it takes them
// out of what the programs see.
struct AgentOptions {
  std::string coordinator;  // "address:port"
  std::string secret;
  std::string run;
  std::string task;
  int generation = 0;
  std::string directory;   // the task's own
  bool encrypted = false;  // the connection to the coordinator
  // The agent is the first process of a container: it prints what its programs print, instead of
  // telling the coordinator, and ends with their exit code.
  bool contained = false;
  std::string folder;  // where what the coordinator sends for the programs goes; empty: nowhere
};
// Held by the agent of a task as long as it lives: there is never a second one.
inline std::string agentLock(const std::string& directory) { return directory + "/agent.lock"; }

// Has a guardian (agent/guardian.h) kill its agent and everything below, and end. Ends any other
// program.
inline constexpr int kEndNow = SIGALRM;

// How an agent's complaints begin on its standard error: whoever has only its final output tells by
// this that it was the agent, and not the program, that failed.
inline constexpr std::string_view kAgentWords = "dure-agent: ";
// How its commands exit that fail: because something is not there, or otherwise.
inline constexpr int kAgentNotFound = 2;
inline constexpr int kAgentFailed = 3;
// What the agent complained of, if these are such words.
std::optional<std::string> complaintIn(std::string_view words);

// Its variables: the prefix, which keeps them from programs, and a name.
inline constexpr const char* kAgentPrefix = "DURE_AGENT_";
inline constexpr const char* kAgentSecret = "SECRET";
inline constexpr const char* kAgentTask = "TASK";
inline constexpr const char* kAgentDirectory = "DIRECTORY";
inline std::string agentVariable(const char* name) { return std::string(kAgentPrefix) + name; }
std::vector<std::string> toEnvironment(const AgentOptions& options);
// Invalid, with the name of the variable that is missing or wrong.
Result<AgentOptions> agentOptionsFrom(const std::vector<std::string>& environment);

}  // namespace dure::protocol
