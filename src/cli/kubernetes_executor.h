#pragma once

#include <chrono>
#include <map>
#include <set>
#include <string>

#include "backend/kubernetes/cluster_service.h"
#include "backend/kubernetes/cluster_volume.h"
#include "cli/part_executor.h"
#include "pipeline/pipeline.h"

namespace dure::cli {

// Parts of a pipeline as runs in a cluster, each with a manager of its own there, and a record of
// this machine that mirrors it. They go on when this machine does not; a process that resumes the
// pipeline finds them. Services are Deployments.
class KubernetesExecutor : public PartExecutor {
 public:
  KubernetesExecutor(const std::string& record, const pipeline::Pipeline& pipeline,
                     kube::KubeClient& client, kubernetes::ClusterPlace place);

  Result<std::string> start(const pipeline::Attempt& attempt) override;
  pipeline::Progress look(const std::string& part) override;
  void stop(const std::string& part, bool at_once) override;
  Result<pipeline::Left> recover(const pipeline::Attempt& attempt, const std::string& run) override;
  bool outlives(pipeline::StepKind) const override { return true; }
  Status endStrays(const std::set<std::string>& keep) override;

 protected:
  int carryOut(Context& context, const pipeline::Attempt& attempt, const runs::RunId& run,
               bool again) override;

 private:
  using SteadyClock = std::chrono::steady_clock;
  struct Deployed {
    bool stopped = false;
    pipeline::Progress progress;  // when it was last looked at
    SteadyClock::time_point look_at;
  };
  // The run in the cluster that a run of ours mirrors. NotFound if there is none (yet).
  Result<runs::RunId> mirrored(kube::KubeClient& client, const runs::RunId& run) const;
  spec::Job inCluster(const pipeline::Attempt& attempt) const;

  const pipeline::Pipeline& pipeline_;
  kube::KubeClient& client_;
  const kubernetes::ClusterPlace place_;
  std::map<std::string, Deployed> services_;  // by part
};

}  // namespace dure::cli
