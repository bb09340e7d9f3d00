#pragma once

#include <string>

#include "kube/test_api.h"

namespace dure::kube {

// What the scheduler, the kubelets and the Job controller of a cluster do to the objects of one
// namespace: each call is one step, taken when the test says so. Of what is not there nothing
// happens.
class FakeKubelet {
 public:
  explicit FakeKubelet(FakeApi& api, std::string name_space = "team")
      : api_(api), name_space_(std::move(name_space)) {}

  // A node that is ready, of this size.
  void addNode(const std::string& name, int cpus = 8, int gpus = 0);

  void bind(const std::string& pod, const std::string& node);
  // The scheduler finds no node, in its words.
  void cannotPlace(const std::string& pod, const std::string& why);
  // All containers run; on `node`, if the pod is on none yet.
  void run(const std::string& pod, const std::string& node = "node-1");
  // Its containers wait: ErrImagePull, CreateContainerConfigError.
  void wait(const std::string& pod, const std::string& reason, const std::string& message = "");
  // Its containers end. A pod that is being deleted goes.
  void end(const std::string& pod, int code = 0, const std::string& reason = "",
           const std::string& message = "");
  // Its kubelet ends it and says why: Evicted, Preempting.
  void evict(const std::string& pod, const std::string& reason, const std::string& message = "");
  // Somebody who has not seen its containers end calls it failed, as of a node that is cut off.
  void giveUp(const std::string& pod, const std::string& reason = "NodeLost");

  // "Complete" or "Failed".
  void finishJob(const std::string& job, const std::string& condition);

 private:
  KubeAddress pod(const std::string& name) const { return {kinds::kPods, name_space_, name, ""}; }
  // Gives the state to every container, and the rest to the pod.
  void setState(const std::string& pod, const nlohmann::json& state, const nlohmann::json& status);

  FakeApi& api_;
  const std::string name_space_;
};

}  // namespace dure::kube
