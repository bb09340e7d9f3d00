#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "plan/kubernetes_objects.h"

// What the objects of a run are called, and how they are found again.
namespace dure::kubernetes {

// A run of a job on Kubernetes: "train.2" as people name it, "train-2" as its objects are called.
struct KubeRun {
  std::string name_space;
  std::string job;
  int number = 1;

  std::string text() const;    // "train.2"
  std::string object() const;  // "train-2": its Job, its record, its service, its secret
  // The pod of a task. Each generation has its own, so that the words of the last one stay
  // readable.
  std::string pod(const std::string& task, int generation) const;
  std::string journal(int part) const;
  std::string folder(int part) const;
  std::string metrics() const;
  std::string host(const std::string& task) const;  // "worker-0.train-2"
  // Of what is not in a namespace.
  std::string clusterObject() const;  // "dure:NAMESPACE:train-2"
};

namespace labels {
inline constexpr const char* kManagedBy = plan::kManagedByLabel;
inline constexpr const char* kJob = plan::kJobLabel;
inline constexpr const char* kRun = "dure/run";  // the number
inline constexpr const char* kPart =
    "dure/part";  // record, journal, folder, metrics, manager, task
inline constexpr const char* kTask = "dure/task";
inline constexpr const char* kGeneration = "dure/generation";
}  // namespace labels

// What the manager is told by its pod.
namespace variables {
inline constexpr const char* kPodIp = "DURE_POD_IP";
inline constexpr const char* kSecret = "DURE_SECRET";
// Which images runs have, also where a person sets them.
inline constexpr const char* kImage = "DURE_IMAGE";
inline constexpr const char* kTrainerImage = "DURE_TRAINER_IMAGE";
}  // namespace variables

// Where the run's record has the job, and its secret object the secret.
inline constexpr const char* kJobKey = "job.yaml";
inline constexpr const char* kSecretKey = "secret";

// The lock of whoever is placing a gang, common to all managers that may look at all nodes. Others
// place nothing themselves.
inline constexpr const char* kPlacementLease = "dure-placement";
inline constexpr const char* kPlacementNamespace = "default";

namespace annotations {
// The node that a pod was planned for: it counts as taken before the scheduler has seen the pod.
inline constexpr const char* kNode = plan::kNodeAnnotation;
// The ranks whose output a pod prints, in this order: "2,3"; with several, each line begins "[2] ".
inline constexpr const char* kRanks = "dure/ranks";
// Who has made it, by a random token: a part of a journal, or what a new run consists of.
inline constexpr const char* kWriter = "dure/writer";
// Of a claim with data: all of it is there.
inline constexpr const char* kComplete = "dure/complete";
// Of a run's record: where the output goes on the machine that the run was started from, as the job
// file says; and that it has arrived there.
inline constexpr const char* kOutput = "dure/output";
inline constexpr const char* kArrived = "dure/arrived";
// What autoscalers go by before they remove a node: "false" keeps it while the pod is there.
inline constexpr const char* kSafeToEvict = "cluster-autoscaler.kubernetes.io/safe-to-evict";
inline constexpr const char* kDoNotDisrupt = "karpenter.sh/do-not-disrupt";
// Asks the manager to end the run: "gently" or "now".
inline constexpr const char* kStop = "dure/stop";
}  // namespace annotations

nlohmann::json labelsOf(const KubeRun& run, const char* part);
// "dure/job=train,dure/run=2" and, if it is given, the part.
std::string selectorOf(const KubeRun& run, const char* part = nullptr);

}  // namespace dure::kubernetes
