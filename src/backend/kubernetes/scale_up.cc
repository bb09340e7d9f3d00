#include "backend/kubernetes/scale_up.h"

#include <algorithm>

#include <fmt/core.h>

#include "backend/kubernetes/manifest_parts.h"
#include "base/log.h"
#include "base/text.h"
#include "plan/request.h"

namespace dure::kubernetes {
namespace {

using nlohmann::json;

constexpr const char* kScaleUp = "scale-up";

// Of one pod. Where the plan splits GPUs, nobody knows yet which node will give how many: they are
// asked for one by one.
json resourcesOfOne(const spec::Job& job) {
  if (job.gpus == 0) return resourcesOf(job, job.resources.gpus);
  spec::Job one = job;
  one.resources = {};
  return resourcesOf(one, 1);
}

}  // namespace

std::vector<json> scaleUpPods(const KubeRun& run, const spec::Job& job, const KubeImages& images,
                              const json& owner) {
  json container = {{"name", kScaleUp},
                    {"image", images.dure},
                    {"command", {"dure-agent", "wait"}},
                    {"securityContext", containerSecurity(job)},
                    {"resources", resourcesOfOne(job)}};
  if (!job.program.pull.empty()) container["imagePullPolicy"] = job.program.pull;
  json spec = schedulingOf(job);
  spec["restartPolicy"] = "Never";
  spec["automountServiceAccountToken"] = false;
  spec["enableServiceLinks"] = false;
  spec["terminationGracePeriodSeconds"] = 0;
  // Also if nobody comes to withdraw them.
  spec["activeDeadlineSeconds"] = 2 * (job.timeouts.autoscale.count() / 1000 + 1);
  spec["securityContext"] = podSecurity(job);
  addPullSecrets(job, spec);
  spec["containers"] = json::array({container});
  const int count = job.gpus > 0 ? job.gpus : plan::makeRequest(job).fewest;
  std::vector<json> pods;
  for (int i = 0; i < count; ++i) {
    pods.push_back({{"apiVersion", "v1"},
                    {"kind", "Pod"},
                    {"metadata",
                     {{"name", fmt::format("{}-{}-{}", run.object(), kScaleUp, i)},
                      {"namespace", run.name_space},
                      {"labels", labelsOf(run, kScaleUp)},
                      {"annotations", {{annotations::kSafeToEvict, "true"}}},
                      {"ownerReferences", json::array({owner})}}},
                    {"spec", spec}});
  }
  return pods;
}

std::string ScaleUp::ask() {
  const auto now = Clock::now();
  if (now >= turns_at_) {
    turns_at_ = now + job_.timeouts.autoscale;
    asking_ = !asking_;
    if (!asking_) withdraw();
    if (asking_) missing_ = scaleUpPods(run_, job_, images_, owner_);
    count_ = missing_.size();
  }
  if (!asking_) {
    return fmt::format("no node came within {}, and they are asked for again later",
                       describeDuration(job_.timeouts.autoscale));
  }
  while (!missing_.empty()) {
    const auto made =
        client_.create({kube::kinds::kPods, run_.name_space, "", ""}, missing_.back());
    // Those of a manager before this one do as well.
    if (!made && made.error().code() != Code::kExists) {
      return "cannot ask for nodes: " + made.error().message();
    }
    missing_.pop_back();
  }
  return fmt::format("asks for nodes with {} pod{}", count_, count_ == 1 ? "" : "s");
}

void ScaleUp::withdraw() {
  const auto pods = client_.listAll({kube::kinds::kPods, run_.name_space, "", ""},
                                    {.labels = selectorOf(run_, kScaleUp)});
  if (!pods) {
    logInfo("kubernetes", "cannot withdraw pods that ask for nodes: {}", pods.error().message());
    return;
  }
  for (const json& pod : *pods) {
    const std::string name = pod.at("metadata").at("name");
    static_cast<void>(
        client_.remove({kube::kinds::kPods, run_.name_space, name, ""}, {.grace_seconds = 0}));
  }
}

bool ScaleUp::isOurs(const json& pod) const {
  const json metadata = pod.value("metadata", json::object());
  if (metadata.value("namespace", "") != run_.name_space) return false;
  const json labels = metadata.value("labels", json::object());
  const json wanted = labelsOf(run_, kScaleUp);
  return std::all_of(wanted.items().begin(), wanted.items().end(), [&](const auto& label) {
    return labels.value(label.key(), "") == label.value().template get<std::string>();
  });
}

}  // namespace dure::kubernetes
