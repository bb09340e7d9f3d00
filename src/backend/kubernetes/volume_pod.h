#pragma once

#include <string>

#include "backend/kubernetes/helper_pod.h"
#include "backend/kubernetes/names.h"
#include "base/wait.h"
#include "bundle/file_stream.h"
#include "kube/client.h"
#include "spec/job.h"

namespace dure::kubernetes {

// A pod that has the volumes of a run: one of the job's that still runs, or one made for looking
// into them, which is deleted with this object.
class VolumePod {
 public:
  VolumePod(kube::KubeClient& client, KubeRun run, spec::Job job);

  // Unavailable, with the reason, if there is none and none can be started.
  Status find(const Wait& wait);
  // A file or a directory of the pod.
  Status send(const std::string& path, bundle::FileReceiver& files);

 private:
  kube::KubeClient& client_;
  const KubeRun run_;
  const spec::Job job_;
  HelperPod helper_;
  std::string pod_;
  std::string container_;
};

}  // namespace dure::kubernetes
