#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "backend/kubernetes/helper_pod.h"
#include "bundle/file_stream.h"
#include "kube/client.h"
#include "pipeline/volume.h"
#include "spec/job.h"

namespace dure::kubernetes {

// Where the steps of a pipeline that runs in a cluster find each other: a directory of a claim,
// which every run of the pipeline has one of.
struct ClusterPlace {
  std::string context;  // of the kubeconfig
  std::string name_space;
  std::string claim;
  std::string folder;  // on the claim; also the beginning of the names of the parts' runs

  // Where pods have the claim, and on it the directory of this run.
  static constexpr const char* kMount = "/dure-pipeline";
  std::string root() const { return std::string(kMount) + "/" + folder; }
  // "claim imdb-volume of namespace team, /imdb-1f3c5/volume".
  std::string description() const;
  // The name that the runs of a part have in the cluster: no other run's part has it.
  std::string jobOf(const std::string& part) const;
};
nlohmann::json toJson(const ClusterPlace& place);
// Nothing if the run of this record is, or was, one of this machine alone.
Result<std::optional<ClusterPlace>> readPlace(const runs::RunPaths& record);

// The outputs of a pipeline's parts on a claim. What is to be done there `dure pipeline-volume`
// does, in a pod that is made when it is needed, and goes with this object.
class ClusterVolume : public pipeline::Outputs {
 public:
  // `like` says how the pod is to be: user, nodes, pull secrets.
  ClusterVolume(kube::KubeClient& client, ClusterPlace place, spec::Job like,
                const runs::RunStore& store, runs::RunId id, bool fresh);

  // For the process in charge of the run: makes the claim if it is not there, unless it was `named`
  // by somebody, and ends what an earlier process has left.
  Status takeCharge(bool named);

  pipeline::Folders foldersOf(const std::string& folder) const override;
  Status prepare(const std::string& folder, bool goes_on) override;
  Result<std::string> publish(const std::string& folder) override;
  Result<bool> has(const std::string& folder) override;
  Status report(const std::string& part, const std::string& text) override;
  Result<std::optional<pipeline::Reused>> reuse(const std::string& part, const std::string& folder,
                                                const std::string& key) override;

  Result<std::vector<pipeline::OutputTree::File>> list();
  // Copies a file or a directory of the volume.
  Status fetch(const std::string& path, bundle::FileReceiver& files);
  // Removes the directory of this run; and the claim, if it is ours and no other run has one there.
  Status remove();

 private:
  Status makeClaim(bool named);
  Status findPod();
  // What the command answers, a JSON object.
  Result<nlohmann::json> call(const std::vector<std::string>& words);
  kube::KubeAddress claimAddress() const;

  kube::KubeClient& client_;
  const ClusterPlace place_;
  const spec::Job like_;
  const runs::RunStore& store_;
  const runs::RunId id_;
  const bool fresh_;
  bool in_charge_ = false;
  const pipeline::OutputTree tree_;
  std::unique_ptr<HelperPod> pod_;
};

// What `dure pipeline-volume ROOT WORD…` does in the pod; its answer.
Result<nlohmann::json> serveVolume(const std::string& root, const std::vector<std::string>& words);

}  // namespace dure::kubernetes
