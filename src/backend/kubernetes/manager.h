#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "backend/kubernetes/kubernetes_backend.h"
#include "backend/kubernetes/names.h"
#include "coordinator/coordinator.h"
#include "kube/client.h"

namespace dure::kubernetes {

// What a manager has to say: it becomes the log of its pod.
class ManagerView : public coordinator::Observer {
 public:
  virtual void say(const std::string& sentence) = 0;
};

struct ManagerTimes {
  BackendTimes backend = {};
  // Whoever follows the pods of a run reads their last words before they are deleted.
  std::chrono::milliseconds readers_catch_up{3'000};
  // From one look whether the output has arrived to the next, when the time to live is over.
  std::chrono::milliseconds look_for_arrival{60'000};
};

// Runs one job of this cluster, from inside it. It may die at any moment: the Job that it belongs
// to starts another, which goes on from the journal. How the run has ended, as its pod is to tell;
// nothing if another manager has to take it up.
std::optional<gang::Outcome> manageRun(kube::KubeClient& client, const KubeRun& run,
                                       ManagerView& view, const ManagerTimes& times = {});

}  // namespace dure::kubernetes
