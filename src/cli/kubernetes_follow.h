#pragma once

#include "cli/command.h"
#include "cli/pod_logs.h"
#include "cli/run_watch.h"
#include "kube/client.h"

namespace dure::cli {

// Counts SIGINT, SIGTERM and SIGHUP from the first call on.
void countInterruptions();
int interruptions();

// Shows a run to the person who started it, as it would be shown if it ran here, to its end; the
// exit code. An interruption asks it to stop.
int followKubeRun(Context& context, kube::KubeClient& client, const kubernetes::KubeRun& run);

// What the watch comes to know, if it is news. `over` if the run has ended, or nobody is in charge
// of it; that is asked for once more, since its objects are not watched in one order. NotFound if
// it was removed.
struct FollowedRun {
  runs::RunView view;
  bool over = false;
};
Result<FollowedRun> followed(kube::KubeClient& client, const kubernetes::KubeRun& run,
                             const KubeRunObjects& objects);

// Reads on, when the run is over, until the pods have said all, but no longer than this.
void readLastWords(kube::KubeClient& client, const kubernetes::KubeRun& run, RunWatch& watch,
                   PodLogs& logs, Duration patience);

}  // namespace dure::cli
