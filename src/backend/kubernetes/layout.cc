#include "backend/kubernetes/layout.h"

namespace dure::kubernetes {

gang::Layout layoutOf(const spec::Job& job, const plan::Placement& placement) {
  gang::Layout layout{.workers = static_cast<int>(placement.share_of_task.size()) -
                                 job.roles.chief - job.roles.ps - job.roles.evaluator,
                      .gpus = {},
                      .changes = true};
  if (job.gpus == 0) return layout;
  for (const int share : placement.share_of_task) {
    layout.gpus.push_back(static_cast<int>(placement.shares[static_cast<std::size_t>(share)].gpus));
  }
  return layout;
}

std::map<std::string, std::string> nodesOf(const gang::Roster& roster,
                                           const plan::Placement& placement) {
  std::map<std::string, std::string> nodes;
  std::size_t next = 0;
  for (const gang::Task& task : roster.tasks) {
    if (task.role == gang::Role::kLauncher) continue;
    const auto share = static_cast<std::size_t>(placement.share_of_task.at(next++));
    nodes[task.name()] = placement.shares[share].node;
  }
  return nodes;
}

}  // namespace dure::kubernetes
