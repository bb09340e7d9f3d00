#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "backend/kubernetes/names.h"
#include "gang/backend.h"
#include "gang/roster.h"
#include "gang/site.h"
#include "kube/client.h"
#include "spec/job.h"

// The objects that make up a run. Pure: what is sent to the API server, and nothing else.
namespace dure::kubernetes {

// The images of Dure itself.
struct KubeImages {
  std::string dure;     // has dure and dure-agent
  std::string trainer;  // has dure-trainer: for native jobs that name no image
};
// $DURE_IMAGE and $DURE_TRAINER_IMAGE, or those of this version.
KubeImages imagesFromEnvironment();

// Has a container log what this process is told to by DURE_LOG.
void addLogVariable(nlohmann::json& variables);

// Where things are in the pods of a run.
inline constexpr const char* kPodDirectory = "/dure";
inline constexpr const char* kPodWorkdir = "/dure/work";
inline constexpr const char* kPodAgent = "/dure/bin/dure-agent";

// What the ranks of this run will be told. `manager` is the manager's address, if it is known.
gang::Site siteOf(const KubeRun& run, const spec::Job& job, const std::string& manager = "");

struct KubeObject {
  kube::KubeKind kind;
  nlohmann::json object;
};

nlohmann::json ownerReference(const nlohmann::json& object);

// The record, which owns everything else. The job goes into it as the manager is to run it.
KubeObject recordObject(const KubeRun& run, const spec::Job& job);
// What else a run needs before its manager starts: secret and service.
std::vector<KubeObject> supportObjects(const KubeRun& run, const spec::Job& job,
                                       const std::string& secret, const nlohmann::json& owner);
// The manager's rights, first of all, then its account and what binds them, for a job that names no
// account. Not everybody may grant the right to write events, which a run can do without.
// They stay as long as one of the `owners`, an array, does: with the ClusterRole among them, until
// the manager has come to remove that.
enum class EventRights { kGranted, kLeftOut };
std::vector<KubeObject> accountObjects(const KubeRun& run, EventRights events,
                                       const nlohmann::json& owners);
// Node listing for the manager, where the user may grant it. It is not in the namespace, but goes
// with it: `owner` of the role is the namespace, that of the binding is the role.
KubeObject clusterRole(const KubeRun& run, const nlohmann::json& owner);
KubeObject clusterBinding(const KubeRun& run, const nlohmann::json& owner);
KubeObject managerObject(const KubeRun& run, const spec::Job& job, const KubeImages& images,
                         std::size_t folder_bytes, const nlohmann::json& owner);

// A container that goes before the others and puts dure-agent where they find it, whatever their
// image and their volumes are; where that is, and how it is mounted.
nlohmann::json agentInstaller(const spec::Job& job, const KubeImages& images);
nlohmann::json agentVolume();
nlohmann::json agentMount();

struct TaskPod {
  const KubeRun& run;
  const spec::Job& job;
  const KubeImages& images;
  const gang::Task& task;
  const gang::JoinOptions& join;
  std::string node;  // planned; empty: wherever the scheduler puts it
  nlohmann::json owner;
};
nlohmann::json podOf(const TaskPod& pod);

}  // namespace dure::kubernetes
