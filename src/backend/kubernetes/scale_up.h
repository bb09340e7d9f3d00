#pragma once

#include <chrono>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "backend/kubernetes/names.h"
#include "backend/kubernetes/objects.h"
#include "kube/client.h"
#include "spec/job.h"

namespace dure::kubernetes {

// Asks the cluster's autoscaler for the nodes that a gang lacks. An autoscaler adds nodes for pods
// that the scheduler cannot place, so these are pods that ask for what the gang's tasks ask for and
// do nothing. A gang is still placed whole: its own pods are created when the plan has a node for
// each, and these are deleted first. They go with this object.
class ScaleUp {
 public:
  ScaleUp(kube::KubeClient& client, const KubeRun& run, const spec::Job& job,
          const KubeImages& images, const nlohmann::json& owner)
      : client_(client), run_(run), job_(job), images_(images), owner_(owner) {}
  ~ScaleUp() { withdraw(); }
  ScaleUp(const ScaleUp&) = delete;
  ScaleUp& operator=(const ScaleUp&) = delete;

  // For as long as there is no place, again and again: the pods are there for
  // `timeouts.autoscale`, then they are not for as long, since they hold what others could have.
  // What the run says meanwhile: "asks for nodes, with 4 pods".
  std::string ask();
  void withdraw();
  // Whether this pod is one of them: it makes room for the gang.
  bool isOurs(const nlohmann::json& pod) const;

 private:
  using Clock = std::chrono::steady_clock;

  kube::KubeClient& client_;
  const KubeRun& run_;
  const spec::Job& job_;
  const KubeImages& images_;
  const nlohmann::json& owner_;
  Clock::time_point turns_at_;  // from asking to not asking, and back
  bool asking_ = false;
  std::size_t count_ = 0;
  std::vector<nlohmann::json> missing_;  // of the pods: not created yet
};

// The pods of the smallest gang that may start. Pure.
std::vector<nlohmann::json> scaleUpPods(const KubeRun& run, const spec::Job& job,
                                        const KubeImages& images, const nlohmann::json& owner);

}  // namespace dure::kubernetes
