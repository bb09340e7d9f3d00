#include "protocol/agent_options.h"

#include <charconv>
#include <map>

namespace dure::protocol {
namespace {

// The one list of the variables: name, and the member it fills.
template <typename Options, typename Visit>
void eachVariable(Options& options, Visit visit) {
  visit("COORDINATOR", options.coordinator);
  visit(kAgentSecret, options.secret);
  visit("RUN", options.run);
  visit(kAgentTask, options.task);
  visit(kAgentDirectory, options.directory);
}

constexpr const char* kYes = "1";

}  // namespace

std::optional<std::string> complaintIn(std::string_view words) {
  if (!words.starts_with(kAgentWords)) return std::nullopt;
  words.remove_prefix(kAgentWords.size());
  while (words.ends_with('\n')) words.remove_suffix(1);
  return std::string(words);
}

std::vector<std::string> toEnvironment(const AgentOptions& options) {
  std::vector<std::string> environment;
  eachVariable(options, [&](const char* name, const std::string& value) {
    environment.push_back(agentVariable(name) + "=" + value);
  });
  environment.push_back(std::string(kAgentPrefix) +
                        "GENERATION=" + std::to_string(options.generation));
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) environment.push_back(agentVariable(name) + "=" + value);
  };
  add("ENCRYPTED", options.encrypted ? kYes : "");
  add("CONTAINED", options.contained ? kYes : "");
  add("FOLDER", options.folder);
  return environment;
}

Result<AgentOptions> agentOptionsFrom(const std::vector<std::string>& environment) {
  std::map<std::string, std::string> variables;
  for (const std::string& entry : environment) {
    const std::size_t equals = entry.find('=');
    if (equals != std::string::npos) variables[entry.substr(0, equals)] = entry.substr(equals + 1);
  }
  AgentOptions options;
  std::string missing;
  const auto take = [&](const std::string& name) {
    const auto found = variables.find(kAgentPrefix + name);
    if (found != variables.end() && !found->second.empty()) return found->second;
    if (missing.empty()) missing = kAgentPrefix + name;
    return std::string();
  };
  eachVariable(options, [&](const char* name, std::string& value) { value = take(name); });
  const std::string generation = take("GENERATION");
  if (!missing.empty()) {
    return Error(Code::kInvalid, missing + " is not set; agents are started by dure, not by hand");
  }
  options.encrypted = variables[std::string(kAgentPrefix) + "ENCRYPTED"] == kYes;
  options.contained = variables[std::string(kAgentPrefix) + "CONTAINED"] == kYes;
  options.folder = variables[std::string(kAgentPrefix) + "FOLDER"];
  const auto [end, error] =
      std::from_chars(generation.data(), generation.data() + generation.size(), options.generation);
  if (error != std::errc() || end != generation.data() + generation.size()) {
    return Error(Code::kInvalid, std::string(kAgentPrefix) + "GENERATION is not a number");
  }
  if (options.coordinator.find(':') == std::string::npos) {
    return Error(Code::kInvalid, std::string(kAgentPrefix) + "COORDINATOR has no port");
  }
  return options;
}

}  // namespace dure::protocol
