#include "backend/kubernetes/volume_pod.h"

#include "backend/kubernetes/manifest_parts.h"
#include "backend/kubernetes/objects.h"
#include "backend/kubernetes/pod_view.h"

namespace dure::kubernetes {

using nlohmann::json;

VolumePod::VolumePod(kube::KubeClient& client, KubeRun run, spec::Job job)
    : client_(client),
      run_(std::move(run)),
      job_(std::move(job)),
      helper_(client, run_.name_space, job_) {}

Status VolumePod::find(const Wait& wait) {
  const auto pods = client_.listAll({kube::kinds::kPods, run_.name_space, "", ""},
                                    {.labels = selectorOf(run_, "task")});
  if (!pods) return pods.error();
  for (const json& pod : *pods) {
    const PodView view = viewPod(pod);
    // The first rank's pod has every volume.
    if (view.phase != "Running" || view.deleting || !view.first) continue;
    pod_ = view.name;
    container_ = view.task;
    return {};
  }
  const auto record = client_.get({kube::kinds::kConfigMaps, run_.name_space, run_.object(), ""});
  if (!record) return record.error();
  auto started = helper_.start({.name = run_.object() + "-fetch",
                                .labels = labelsOf(run_, "fetch"),
                                .owner = ownerReference(*record),
                                .volumes = volumesOf(job_, true),
                                .mounts = mountsOf(job_, kPodWorkdir, true),
                                .purpose = "looks into the volume"},
                               wait);
  if (!started) return started;
  pod_ = helper_.name();
  container_ = HelperPod::kContainer;
  return {};
}

Status VolumePod::send(const std::string& path, bundle::FileReceiver& files) {
  const auto sent = runAgent(client_,
                             {.name_space = run_.name_space,
                              .pod = pod_,
                              .container = container_,
                              .command = {"send", path},
                              .input = nullptr},
                             [&](std::string_view bytes) { return files.take(bytes); });
  return sent ? files.finish() : sent;
}

}  // namespace dure::kubernetes
