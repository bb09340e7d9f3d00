#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

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
  ~VolumePod();
  VolumePod(const VolumePod&) = delete;
  VolumePod& operator=(const VolumePod&) = delete;

  // Unavailable, with the reason, if there is none and none can be started.
  Status find(const Wait& wait);
  // A file or a directory of the pod.
  Status send(const std::string& path, bundle::FileReceiver& files);

 private:
  Status make(const Wait& wait);
  nlohmann::json specOf() const;

  kube::KubeClient& client_;
  const KubeRun run_;
  const spec::Job job_;
  std::string made_;  // by us
  std::string pod_;
  std::string container_;
};

}  // namespace dure::kubernetes
