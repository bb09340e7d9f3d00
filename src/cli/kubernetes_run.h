#pragma once

#include "backend/kubernetes/kube_runs.h"
#include "cli/command.h"
#include "spec/job.h"

namespace dure::cli {

struct KubernetesRunOptions {
  bool detach = false;
  bool ad_hoc = false;  // nobody chose the name, so it may be changed if it is in use
};

// Creates a run of the job in the cluster and follows it to its end (or, detached, returns when its
// manager has been created); the exit code.
int runOnKubernetes(Context& context, kubernetes::KubeRuns& runs, spec::Job job,
                    const KubernetesRunOptions& options);

}  // namespace dure::cli
