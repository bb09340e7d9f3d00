#include "runs/leftovers.h"

#include <thread>

#include "base/process_tree.h"
#include "base/rank_names.h"
#include "protocol/agent_options.h"

namespace dure::runs {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Agents whose coordinator died end at once; longer than this, something is wrong with them.
constexpr milliseconds kAgentsEnd{10'000};

std::vector<pid_t> withDirectory(const std::string& variable, const RunPaths& paths) {
  const std::string begin = variable + "=" + paths.tasks() + "/";
  return processesWith([&](std::string_view entry) { return entry.starts_with(begin); });
}

}  // namespace

Status endLeftovers(const RunPaths& paths, milliseconds patience) {
  Purge purge(patience);
  const auto began = steady_clock::now();
  while (true) {
    const std::vector<pid_t> agents =
        withDirectory(protocol::agentVariable(protocol::kAgentDirectory), paths);
    std::vector<pid_t> left = withDirectory(variables::kTaskDirectory, paths);
    if (left.empty() && agents.empty()) return {};
    std::vector<pid_t> doomed = left;
    if (steady_clock::now() - began > kAgentsEnd) {
      doomed.insert(doomed.end(), agents.begin(), agents.end());
    }
    left.insert(left.end(), agents.begin(), agents.end());
    if (purge.exhausted()) {
      return Error(Code::kUnavailable,
                   "what is left of the run cannot be ended: " + describeProcesses(left));
    }
    std::this_thread::sleep_for(purge.strike(doomed));
  }
}

}  // namespace dure::runs
