#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/kubernetes/cluster_volume.h"
#include "cli/command.h"
#include "kube/client.h"
#include "pipeline/pipeline.h"
#include "runs/run_store.h"
#include "runs/runs.h"

namespace dure::cli {

// A client for the cluster that a pipeline runs in.
Result<std::unique_ptr<kube::KubeClient>> clientFor(const kubernetes::ClusterPlace& place);

// What a run of a pipeline has in a cluster, for commands that are about a run of this machine's
// records: its parts' runs, its services, its directory on the claim.
class ClusterPipeline {
 public:
  // Nothing if the run is, or was, one of this machine alone.
  static Result<std::unique_ptr<ClusterPipeline>> open(runs::RunStore& store,
                                                       const runs::RunId& id);

  // Whether services of it run, or parts although nobody is in charge of the pipeline.
  Result<bool> goesOn();
  // Ends them; whether there were any. For when nobody is in charge of the pipeline any more.
  Result<bool> end(bool at_once);
  // Ends and removes all of it.
  Status remove();
  kubernetes::ClusterVolume& volume() { return volume_; }
  const kubernetes::ClusterPlace& place() const { return place_; }

  // Services that are this step, or part of one; all of them without a name.
  std::vector<std::string> services(const std::string& step) const;
  Status serviceLogs(const std::string& part, bool follow,
                     const std::function<void(std::string_view)>& take);

 private:
  ClusterPipeline(runs::RunStore& store, const runs::RunId& id, const pipeline::Pipeline& pipeline,
                  kubernetes::ClusterPlace place, std::unique_ptr<kube::KubeClient> client);
  // The run of a part that goes on in the cluster.
  Result<std::optional<runs::RunId>> activeRun(const std::string& part);
  Status noteServicesStopped();

  runs::RunStore& store_;
  const runs::RunId id_;
  const std::unique_ptr<kube::KubeClient> client_;
  const kubernetes::ClusterPlace place_;
  const pipeline::Pipeline pipeline_;
  kubernetes::ClusterVolume volume_;
};

// How pods that are no part of a job are to be in the cluster of this pipeline.
spec::Job jobLike(const pipeline::Pipeline& pipeline);

// Removes what the run has in the cluster, and then its record. Invalid if it goes on, unless
// `force`: then it is stopped first, and what cannot be removed of a cluster is left with a
// warning.
Status removePipeline(Context& context, runs::Runs& runs, const runs::RunId& id, bool force);

}  // namespace dure::cli
