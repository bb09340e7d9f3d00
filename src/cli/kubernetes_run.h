#pragma once

#include "cli/command.h"
#include "kube/client.h"
#include "spec/job.h"

namespace dure::cli {

struct KubernetesRunOptions {
  bool detach = false;
  bool ad_hoc = false;  // nobody chose the name, so it may be changed if it is in use
};

// Creates a run of the job in the cluster and follows it to its end (or, detached, returns when its
// manager has been created); the exit code.
int runOnKubernetes(Context& context, kube::KubeClient& client, spec::Job job,
                    const KubernetesRunOptions& options);

// What can be known to be wrong before anything is created.
Status checkForKubernetes(kube::KubeClient& client, const spec::Job& job);

}  // namespace dure::cli
