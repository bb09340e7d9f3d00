#include "backend/kubernetes/helper_pod.h"

#include <chrono>

#include <fmt/core.h>

#include "backend/kubernetes/manifest_parts.h"
#include "backend/kubernetes/objects.h"
#include "backend/kubernetes/pod_view.h"
#include "base/process.h"
#include "protocol/agent_options.h"

namespace dure::kubernetes {
namespace {

using nlohmann::json;

constexpr auto kPodPoll = std::chrono::milliseconds(200);
constexpr auto kPodPatience = std::chrono::seconds(60);
constexpr int kLongestLife = 3600;

json specOf(const spec::Job& job, const HelperPod::Options& options) {
  const KubeImages images = imagesFromEnvironment();
  json security = containerSecurity(job);
  security["readOnlyRootFilesystem"] = true;
  json container = {{"name", HelperPod::kContainer},
                    {"image", images.dure},
                    {"command", {kPodAgent, "wait"}},
                    {"securityContext", security},
                    {"resources", resourcesOf(job.kubernetes.manager)},
                    {"volumeMounts", options.mounts}};
  if (!job.program.pull.empty()) container["imagePullPolicy"] = job.program.pull;
  container["volumeMounts"].push_back(agentMount());
  json install = agentInstaller(job, images);
  install["resources"] = container["resources"];
  json spec = schedulingOf(job);
  spec["restartPolicy"] = "Never";
  spec["automountServiceAccountToken"] = false;
  spec["activeDeadlineSeconds"] = kLongestLife;
  spec["securityContext"] = podSecurity(job);
  addPullSecrets(job, spec);
  spec["initContainers"] = json::array({install});
  spec["containers"] = json::array({container});
  spec["volumes"] = options.volumes;
  spec["volumes"].push_back(agentVolume());
  return spec;
}

}  // namespace

HelperPod::HelperPod(kube::KubeClient& client, std::string name_space, const spec::Job& job)
    : client_(client), name_space_(std::move(name_space)), job_(job) {}

HelperPod::~HelperPod() {
  if (name_.empty()) return;
  static_cast<void>(
      client_.remove({kube::kinds::kPods, name_space_, name_, ""}, {.grace_seconds = 0}));
}

Status HelperPod::start(const Options& options, const Wait& wait) {
  const std::string name = fmt::format("{}-{}", options.name, randomToken().substr(0, 6));
  const json metadata = {{"name", name},
                         {"namespace", name_space_},
                         {"labels", options.labels},
                         {"ownerReferences", json::array({options.owner})}};
  const auto made =
      client_.create({kube::kinds::kPods, name_space_, "", ""}, {{"apiVersion", "v1"},
                                                                 {"kind", "Pod"},
                                                                 {"metadata", metadata},
                                                                 {"spec", specOf(job_, options)}});
  if (!made) return made.error();
  name_ = name;
  const Wait start(kPodPatience, wait.stop());
  std::string problem;
  do {
    const auto pod = client_.get({kube::kinds::kPods, name_space_, name_, ""});
    if (!pod) return pod.error();
    const PodView view = viewPod(*pod);
    if (view.phase == "Running") return {};
    problem = view.problem;
    if (view.ended() || view.hopeless) break;
  } while (start.pause(kPodPoll) && !wait.isOver());
  return Error(Code::kUnavailable,
               fmt::format("the pod that {} does not start{}{}", options.purpose,
                           problem.empty() ? "" : ": ", problem));
}

Status runAgent(kube::KubeClient& client, kube::ExecRequest request,
                const std::function<Status(std::string_view)>& take) {
  Status taken;
  std::string complaint;
  const std::string doing = request.command.at(0);
  request.command.insert(request.command.begin(), kPodAgent);
  const auto code =
      kube::exec(client, request, [&](kube::ExecStream stream, std::string_view bytes) {
        if (stream == kube::ExecStream::kErr) {
          complaint += bytes;
        } else if (taken) {
          taken = take(bytes);
        }
      });
  if (!code) return code.error();
  if (!taken) return taken;
  if (*code == 0) return {};
  if (complaint.empty()) {
    return Error(Code::kUnavailable,
                 fmt::format("{} ended during `dure-agent {}`; try again", request.pod, doing));
  }
  return Error(*code == protocol::kAgentNotFound ? Code::kNotFound : Code::kUnavailable,
               protocol::complaintIn(complaint).value_or(complaint));
}

}  // namespace dure::kubernetes
