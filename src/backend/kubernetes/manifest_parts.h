#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "gang/environment.h"
#include "spec/job.h"

// The pieces that every pod of a job is made of, whoever creates it. All of them are pure.
namespace dure::kubernetes {

// In words and variables of a container Kubernetes replaces $(NAME) and $$; what this returns comes
// out as `text`.
std::string literalText(std::string_view text);
nlohmann::json wordsOf(const std::vector<std::string>& command);  // "command" of a container
nlohmann::json variablesOf(const gang::Environment& env);         // "env" of a container

// As Kubernetes' "restricted" pod security asks for; a job that runs as root has nothing but that.
nlohmann::json podSecurity(const spec::Job& job);        // "securityContext" of a pod
nlohmann::json containerSecurity(const spec::Job& job);  // and of its containers

// The job's volumes as one of its tasks has them: the chief, or another one. Relative paths begin
// at `workdir`.
nlohmann::json volumesOf(const spec::Job& job, bool chief);  // "volumes" of a pod
nlohmann::json mountsOf(const spec::Job& job, const std::string& workdir,
                        bool chief);  // "volumeMounts"

// "resources" of a container that needs this much. Of memory the limit is the request unless
// another one is given.
nlohmann::json resourcesOf(const spec::Resources& resources);
// What the job asks for one task, and so many GPUs.
nlohmann::json resourcesOf(const spec::Job& job, int gpus);

// Has the nodes fetch a pod's images with the job's secrets.
void addPullSecrets(const spec::Job& job, nlohmann::json& pod_spec);

// Where the rendezvous of a job is: every pod has an address of its own.
int portOf(const spec::Job& job);

// Where pods may be placed: the fields of a pod's "spec" that say so, as far as the job does.
nlohmann::json schedulingOf(const spec::Job& job);

// How long a pod stays on a node that does not answer: half a minute, where Kubernetes by itself
// waits for five.
std::vector<nlohmann::json> nodeTolerations();

// A PersistentVolumeClaim with `size` bytes.
nlohmann::json claimOf(const std::string& name, const std::string& access_mode, std::int64_t size,
                       const std::string& storage_class);

}  // namespace dure::kubernetes
