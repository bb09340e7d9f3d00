#pragma once

#include <functional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "base/wait.h"
#include "kube/client.h"
#include "kube/exec.h"
#include "spec/job.h"

namespace dure::kubernetes {

// A pod that has volumes mounted and waits, for commands of dure-agent to be run in it. It is
// deleted with this object; should nobody come to do that, it ends after an hour, and goes with its
// owner.
class HelperPod {
 public:
  // As the tasks of this job are: its user, its node choice, its pull secrets.
  HelperPod(kube::KubeClient& client, std::string name_space, const spec::Job& job);
  ~HelperPod();
  HelperPod(const HelperPod&) = delete;
  HelperPod& operator=(const HelperPod&) = delete;

  struct Options {
    std::string name;       // random letters follow
    nlohmann::json labels;  // of the pod
    nlohmann::json owner;
    nlohmann::json volumes;  // as in a pod's spec
    nlohmann::json mounts;
    std::string purpose;  // for messages: "looks into the volume"
  };
  // Returns when it runs. Unavailable, with the reason, if it does not start.
  Status start(const Options& options, const Wait& wait);

  const std::string& name() const { return name_; }
  static constexpr const char* kContainer = "helper";

 private:
  kube::KubeClient& client_;
  const std::string name_space_;
  const spec::Job& job_;
  std::string name_;  // empty: none was made
};

// Runs a command of dure-agent in a pod. What it complained of, if it failed.
Status runAgent(kube::KubeClient& client, kube::ExecRequest request,
                const std::function<Status(std::string_view)>& take);

}  // namespace dure::kubernetes
