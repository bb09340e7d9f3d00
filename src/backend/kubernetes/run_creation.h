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

// Told while data is sent: which, and how far.
using CreationNews =
    std::function<void(const std::string& path, std::int64_t sent, std::int64_t of)>;

// Creates the objects of a new run; its manager begins by itself. Data of this machine that the
// cluster does not have yet is sent first, and stays for later runs. All or nothing: what was made
// is removed again if something fails, or if `interrupted` says so.
Result<KubeRun> createRun(kube::KubeClient& client, const spec::Job& job,
                          const std::function<bool()>& interrupted, const CreationNews& news = {});

}  // namespace dure::kubernetes
