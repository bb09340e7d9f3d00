#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backend/kubernetes/cluster_volume.h"
#include "backend/kubernetes/objects.h"
#include "kube/client.h"
#include "spec/job.h"

// A service of a pipeline in a cluster: a Deployment, which keeps it running, and a Service, by
// which it is reached. Both are named after pipeline and step, so that a later run takes the place
// of an earlier one without a moment in which nobody answers.
namespace dure::kubernetes {

// Of both objects.
std::string serviceName(const std::string& pipeline, const std::string& part);

struct ClusterService {
  std::string pipeline;  // the name, without the number of a run
  std::string part;
  spec::Job job;      // what runs: of one task
  int port = 0;       // where it answers; 0: it has no Service
  std::string ready;  // the path that answers 200 when it is
  std::string type;   // of the Service: LoadBalancer, NodePort, ClusterIP
  ClusterPlace place;

  std::string name() const { return serviceName(pipeline, part); }
};

// Pure. The Service listens on port 80.
KubeObject deploymentOf(const ClusterService& service, const KubeImages& images);
KubeObject serviceOf(const ClusterService& service);

// Makes it so, whatever is there.
Status startService(kube::KubeClient& client, const ClusterService& service);

struct ServiceView {
  bool there = false;   // of this run: one that a later run has taken over is not
  bool ready = false;   // what was last asked for answers
  std::string problem;  // that its pods have
  std::string address;  // "http://10.0.0.7/", where it is known
};
Result<ServiceView> viewService(kube::KubeClient& client, const ClusterPlace& place,
                                const std::string& name);

// Removes it, unless another run has taken its place.
Status stopService(kube::KubeClient& client, const ClusterPlace& place, const std::string& name);

// What its pods have printed, in whole lines; with `follow` the newest pod until it ends.
Status serviceLogs(kube::KubeClient& client, const ClusterPlace& place, const std::string& name,
                   bool follow, const std::function<void(std::string_view lines)>& take);

}  // namespace dure::kubernetes
