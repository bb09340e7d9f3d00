#include "backend/kubernetes/volume_pod.h"

#include <chrono>

#include <fmt/core.h>

#include "backend/kubernetes/manifest_parts.h"
#include "backend/kubernetes/objects.h"
#include "backend/kubernetes/pod_view.h"
#include "base/process.h"
#include "kube/exec.h"
#include "protocol/agent_options.h"

namespace dure::kubernetes {
namespace {

using nlohmann::json;

constexpr auto kPodPoll = std::chrono::milliseconds(200);
constexpr auto kPodPatience = std::chrono::seconds(60);
// Should we not come to delete it, it holds its volumes no longer than this.
constexpr int kLongestLife = 3600;

}  // namespace

VolumePod::VolumePod(kube::KubeClient& client, KubeRun run, spec::Job job)
    : client_(client), run_(std::move(run)), job_(std::move(job)) {}

VolumePod::~VolumePod() {
  if (made_.empty()) return;
  static_cast<void>(
      client_.remove({kube::kinds::kPods, run_.name_space, made_, ""}, {.grace_seconds = 0}));
}

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
  return make(wait);
}

Status VolumePod::send(const std::string& path, bundle::FileReceiver& files) {
  Status taken;
  std::string complaint;
  const auto code = kube::exec(client_,
                               {.name_space = run_.name_space,
                                .pod = pod_,
                                .container = container_,
                                .command = {kPodAgent, "send", path},
                                .input = {}},
                               [&](kube::ExecStream stream, std::string_view bytes) {
                                 if (stream == kube::ExecStream::kErr) {
                                   complaint += bytes;
                                 } else if (taken) {
                                   taken = files.take(bytes);
                                 }
                               });
  if (!code) return code.error();
  if (!taken) return taken;
  if (*code == 0) return files.finish();
  if (complaint.empty()) {
    return Error(Code::kUnavailable,
                 fmt::format("{} ended while it sent {}; try again", pod_, path));
  }
  return Error(Code::kNotFound, protocol::complaintIn(complaint).value_or(complaint));
}

json VolumePod::specOf() const {
  const KubeImages images = imagesFromEnvironment();
  json security = containerSecurity(job_);
  security["readOnlyRootFilesystem"] = true;
  json container = {{"name", container_},
                    {"image", images.dure},
                    {"command", {kPodAgent, "wait"}},
                    {"securityContext", security},
                    {"resources", resourcesOf(job_.kubernetes.manager)},
                    {"volumeMounts", mountsOf(job_, kPodWorkdir, true)}};
  if (!job_.program.pull.empty()) container["imagePullPolicy"] = job_.program.pull;
  container["volumeMounts"].push_back(agentMount());
  json install = agentInstaller(job_, images);
  install["resources"] = container["resources"];
  json spec = schedulingOf(job_);
  spec["restartPolicy"] = "Never";
  spec["automountServiceAccountToken"] = false;
  spec["activeDeadlineSeconds"] = kLongestLife;
  spec["securityContext"] = podSecurity(job_);
  addPullSecrets(job_, spec);
  spec["initContainers"] = json::array({install});
  spec["containers"] = json::array({container});
  spec["volumes"] = volumesOf(job_, true);
  spec["volumes"].push_back(agentVolume());
  return spec;
}

Status VolumePod::make(const Wait& wait) {
  pod_ = fmt::format("{}-fetch-{}", run_.object(), randomToken().substr(0, 6));
  container_ = "fetch";
  // Should we not come to delete it, it goes with the run.
  const auto record = client_.get({kube::kinds::kConfigMaps, run_.name_space, run_.object(), ""});
  if (!record) return record.error();
  const json metadata = {{"name", pod_},
                         {"namespace", run_.name_space},
                         {"labels", labelsOf(run_, "fetch")},
                         {"ownerReferences", json::array({ownerReference(*record)})}};
  const auto made = client_.create(
      {kube::kinds::kPods, run_.name_space, "", ""},
      {{"apiVersion", "v1"}, {"kind", "Pod"}, {"metadata", metadata}, {"spec", specOf()}});
  if (!made) return made.error();
  made_ = pod_;
  const Wait start(kPodPatience, wait.stop());
  std::string problem;
  do {
    const auto pod = client_.get({kube::kinds::kPods, run_.name_space, made_, ""});
    if (!pod) return pod.error();
    const PodView view = viewPod(*pod);
    if (view.phase == "Running") return {};
    problem = view.problem;
    if (view.ended() || view.hopeless) break;
  } while (start.pause(kPodPoll) && !wait.isOver());
  return Error(Code::kUnavailable,
               fmt::format("the pod that looks into the volume does not start{}{}",
                           problem.empty() ? "" : ": ", problem));
}

}  // namespace dure::kubernetes
