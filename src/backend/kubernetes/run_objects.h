#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "backend/kubernetes/names.h"
#include "kube/client.h"
#include "runs/run_reader.h"

// The objects of a run in the API server, and what they amount to.
namespace dure::kubernetes {

struct RunObjects {
  std::optional<nlohmann::json> manager;  // its Job
  std::optional<nlohmann::json> record;
  std::optional<nlohmann::json> metrics;
  std::vector<nlohmann::json> journal;
  std::vector<nlohmann::json> pods;  // of its manager and its tasks
};
// There is a record.
runs::RunView viewOf(const KubeRun& run, const RunObjects& objects);
// The same of a run that is read now. NotFound if there is no record.
Result<runs::RunView> readKubeRun(kube::KubeClient& client, const KubeRun& run);

// The run of this job that is going on, if there is one.
Result<std::optional<KubeRun>> findActiveRun(kube::KubeClient& client,
                                             const std::string& name_space, const std::string& job);

// The Job that keeps a manager, and whether it still does.
kube::KubeAddress managerOf(const KubeRun& run);
bool isAtWork(const nlohmann::json& job);

// Why the manager of a run that has not begun does not start.
struct ManagerProblem {
  std::string why;        // empty: it is about to
  bool hopeless = false;  // and will not, unless something is done about it
};
ManagerProblem managerProblem(kube::KubeClient& client, const KubeRun& run);
// As these pods tell; nothing if there are none, and only managerProblem() can find out.
std::optional<ManagerProblem> problemOfPods(const KubeRun& run,
                                            const std::vector<nlohmann::json>& pods);

}  // namespace dure::kubernetes
