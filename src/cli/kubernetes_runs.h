#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "backend/kubernetes/names.h"
#include "kube/client.h"
#include "runs/run_reader.h"

// The runs of a namespace, as people see them: the same as those of this machine.
namespace dure::cli {

// The objects of a run that tell how it is.
struct KubeRunObjects {
  std::optional<nlohmann::json> manager;  // its Job
  std::optional<nlohmann::json> record;
  std::optional<nlohmann::json> metrics;
  std::vector<nlohmann::json> journal;
  std::vector<nlohmann::json> pods;  // of its manager and its tasks
};
// What they amount to; there is a record.
runs::RunView viewOf(const kubernetes::KubeRun& run, const KubeRunObjects& objects);

Result<std::vector<runs::RunView>> readKubeRuns(kube::KubeClient& client,
                                                const std::string& name_space);
Result<runs::RunView> readKubeRun(kube::KubeClient& client, const kubernetes::KubeRun& run);

// The run of this job that is going on, if there is one.
Result<std::optional<kubernetes::KubeRun>> findActiveRun(kube::KubeClient& client,
                                                         const std::string& name_space,
                                                         const std::string& job);
// Why the manager of a run that has not begun does not start.
struct ManagerProblem {
  std::string why;        // empty: it is about to
  bool hopeless = false;  // and will not, unless something is done about it
};
ManagerProblem managerProblem(kube::KubeClient& client, const kubernetes::KubeRun& run);
// As these pods tell; nothing if there are none, and only managerProblem() can find out.
std::optional<ManagerProblem> problemOfPods(const kubernetes::KubeRun& run,
                                            const std::vector<nlohmann::json>& pods);

// Asks the run to end, and returns when it has.
Status stopKubeRun(kube::KubeClient& client, const kubernetes::KubeRun& run, bool at_once);
// Removes every object of the run, and returns when its pods and its records are gone. Unavailable,
// with what is left, if that takes too long.
Status removeKubeRun(kube::KubeClient& client, const kubernetes::KubeRun& run);

}  // namespace dure::cli
