#pragma once

#include <functional>

#include "backend/kubernetes/names.h"
#include "kube/client.h"
#include "spec/job.h"

// How a run comes to be in a cluster: everything that its manager needs, and then the manager.
namespace dure::kubernetes {

// What can be known to be wrong before anything is created.
Status checkRun(kube::KubeClient& client, const spec::Job& job);

// The run of this job that createRun() would make now.
Result<KubeRun> nextRun(kube::KubeClient& client, const std::string& job);

// Creates the objects of a new run; its manager begins by itself. All or nothing: what was made is
// removed again if something fails, or if `interrupted` says so.
Result<KubeRun> createRun(kube::KubeClient& client, const spec::Job& job,
                          const std::function<bool()>& interrupted);

}  // namespace dure::kubernetes
