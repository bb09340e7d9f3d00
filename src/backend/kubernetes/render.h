#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/result.h"
#include "spec/job.h"

// A job as plain objects, which Kubernetes runs by itself: nothing of Dure is in the cluster then.
namespace dure::kubernetes {

// The objects of the job's `render` section, in the order in which they are to be created. Native
// jobs run in `trainer_image` unless they name another. Invalid, with the reason, if the job needs
// more than Kubernetes does by itself.
Result<std::vector<nlohmann::json>> renderJob(const spec::Job& job,
                                              const std::string& trainer_image);

// Shared storage: an NFS server, its disk, and a volume that any number of pods may write to.
struct NfsOptions {
  std::string name;  // of the claim that pods use
  std::string name_space;
  std::string image;
  std::string address;        // of its service; empty: chosen, and found by name
  std::string storage_class;  // of its disk; empty: the cluster's default
  std::int64_t size = 0;      // bytes
};
// Invalid if the name is none.
Result<std::vector<nlohmann::json>> renderNfs(const NfsOptions& options);

// Puts the objects into a namespace, those that can be in one.
void putInto(const std::string& name_space, std::vector<nlohmann::json>& objects);

// As `kubectl create -f -` reads them.
std::string printAsYaml(const std::vector<nlohmann::json>& objects);
std::string printAsJson(const std::vector<nlohmann::json>& objects);

}  // namespace dure::kubernetes
