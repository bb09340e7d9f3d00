#include "gang/layout.h"

namespace dure::gang {

Layout layoutOf(const spec::Job& job, const plan::Placement& placement) {
  Layout layout{.workers = static_cast<int>(placement.share_of_task.size()) - job.roles.chief -
                           job.roles.ps - job.roles.evaluator};
  if (job.gpus == 0) return layout;
  for (const int share : placement.share_of_task) {
    layout.gpus.push_back(static_cast<int>(placement.shares[static_cast<std::size_t>(share)].gpus));
  }
  return layout;
}

std::map<std::string, std::string> nodesOf(const Roster& roster, const plan::Placement& placement) {
  std::map<std::string, std::string> nodes;
  std::size_t next = 0;
  for (const Task& task : roster.tasks) {
    if (task.role == Role::kLauncher) continue;
    const auto share = static_cast<std::size_t>(placement.share_of_task.at(next++));
    nodes[task.name()] = placement.shares[share].node;
  }
  return nodes;
}

}  // namespace dure::gang
