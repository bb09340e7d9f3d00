#include <algorithm>

#include <fmt/core.h>

#include "backend/kubernetes/manifest_parts.h"
#include "backend/kubernetes/objects.h"
#include "base/text.h"
#include "protocol/agent_options.h"

namespace dure::kubernetes {
namespace {

using nlohmann::json;

constexpr const char* kShared = "dure";

// What the agent is told. Its secret is not written into the pod, but taken from where it lies.
json agentVariables(const TaskPod& pod) {
  const protocol::AgentOptions options{
      .coordinator = pod.join.coordinator,
      .secret = "",
      .run = pod.join.run,
      .task = pod.task.name(),
      .generation = pod.join.generation,
      .directory = std::string(kPodDirectory) + "/tasks/" + pod.task.name(),
      .encrypted = pod.join.encrypted,
      .contained = true,
      .folder = kPodWorkdir};
  json variables = json::array();
  for (const std::string& entry : protocol::toEnvironment(options)) {
    const std::size_t equals = entry.find('=');
    const std::string name = entry.substr(0, equals);
    if (name == protocol::agentVariable(protocol::kAgentSecret)) {
      variables.push_back(
          {{"name", name},
           {"valueFrom", {{"secretKeyRef", {{"name", pod.run.object()}, {"key", kSecretKey}}}}}});
    } else {
      variables.push_back({{"name", name}, {"value", literalText(entry.substr(equals + 1))}});
    }
  }
  addLogVariable(variables);
  // Whoever has no entry in the image's list of users has / for a home, and may not write there.
  if (pod.job.program.user != 0) variables.push_back({{"name", "HOME"}, {"value", kPodDirectory}});
  return variables;
}

// Only this node will do; the scheduler still decides whether it will.
void bindTo(json& spec, const std::string& node) {
  json& terms = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
                    ["nodeSelectorTerms"];
  if (terms.is_null()) terms = json::array({json::object()});
  for (json& term : terms) {
    term["matchFields"] = {
        {{"key", "metadata.name"}, {"operator", "In"}, {"values", json::array({node})}}};
  }
}

}  // namespace

json agentVolume() { return {{"name", kShared}, {"emptyDir", json::object()}}; }

json agentMount() { return {{"name", kShared}, {"mountPath", kPodDirectory}}; }

json agentInstaller(const spec::Job& job, const KubeImages& images) {
  json install = {{"name", "agent"},
                  {"image", images.dure},
                  {"command", {"dure-agent", "install", kPodAgent, kPodWorkdir}},
                  {"securityContext", containerSecurity(job)},
                  {"terminationMessagePolicy", "FallbackToLogsOnError"},
                  {"volumeMounts", json::array({agentMount()})}};
  install["securityContext"]["readOnlyRootFilesystem"] = true;
  if (!job.program.pull.empty()) install["imagePullPolicy"] = job.program.pull;
  return install;
}

json podOf(const TaskPod& pod) {
  const spec::Job& job = pod.job;
  const bool chief = pod.task.first_rank == 0 && pod.task.processes > 0;
  const std::string image =
      job.program.image.empty() && spec::runsTrainer(job) ? pod.images.trainer : job.program.image;
  json install = agentInstaller(job, pod.images);
  // It is over before the program starts, so it takes nothing beside it; but where there is a quota
  // every container has to say what it needs.
  install["resources"] = resourcesOf(job, 0);
  json main = {{"name", pod.task.name()},
               {"image", image},
               {"command", json::array({kPodAgent})},
               {"env", agentVariables(pod)},
               {"securityContext", containerSecurity(job)},
               {"resources", resourcesOf(job, pod.task.gpus)},
               {"terminationMessagePolicy", "FallbackToLogsOnError"},
               {"volumeMounts", mountsOf(job, kPodWorkdir, chief)}};
  main["volumeMounts"].push_back(agentMount());
  // What containers get by themselves is too small for data loaders.
  main["volumeMounts"].push_back({{"name", "shm"}, {"mountPath", "/dev/shm"}});
  if (pod.task.role == gang::Role::kLauncher) {
    // It only waits for the others: it takes little, and is held back no more than they are.
    spec::Resources little = job.resources;
    little.limits.memory = std::max(little.limits.memory, little.memory);
    little.cpus = std::min(little.cpus, job.kubernetes.manager.cpus);
    little.memory = std::min(little.memory, job.kubernetes.manager.memory);
    main["resources"] = install["resources"] = resourcesOf(little);
  }
  if (!job.program.pull.empty()) main["imagePullPolicy"] = job.program.pull;

  json spec = schedulingOf(job);
  if (!pod.node.empty()) bindTo(spec, pod.node);
  for (json& toleration : nodeTolerations()) spec["tolerations"].push_back(std::move(toleration));
  spec["hostname"] = pod.task.name();
  spec["subdomain"] = pod.run.object();
  spec["restartPolicy"] = "Never";
  spec["automountServiceAccountToken"] = false;
  spec["enableServiceLinks"] = false;
  // The agent is given a little more than its programs are.
  spec["terminationGracePeriodSeconds"] = job.timeouts.stop.count() / 1000 + 5;
  spec["securityContext"] = podSecurity(job);
  addPullSecrets(job, spec);
  spec["initContainers"] = json::array({install});
  spec["containers"] = json::array({main});
  spec["volumes"] = volumesOf(job, chief);
  spec["volumes"].push_back(agentVolume());
  spec["volumes"].push_back({{"name", "shm"}, {"emptyDir", {{"medium", "Memory"}}}});

  json labels = labelsOf(pod.run, "task");
  labels[labels::kTask] = pod.task.name();
  labels[labels::kGeneration] = std::to_string(pod.join.generation);
  json metadata = {{"name", pod.run.pod(pod.task.name(), pod.join.generation)},
                   {"namespace", pod.run.name_space},
                   {"labels", labels},
                   {"ownerReferences", json::array({pod.owner})}};
  std::vector<std::string> ranks;
  for (int process = 0; process < pod.task.processes; ++process) {
    ranks.push_back(std::to_string(pod.task.first_rank + process));
  }
  metadata["annotations"] = {{annotations::kRanks, join(ranks, ",")}};
  if (!pod.node.empty()) metadata["annotations"][annotations::kNode] = pod.node;
  if (job.autoscale) {
    metadata["annotations"][annotations::kSafeToEvict] = "false";
    metadata["annotations"][annotations::kDoNotDisrupt] = "true";
  }
  return {{"apiVersion", "v1"}, {"kind", "Pod"}, {"metadata", metadata}, {"spec", spec}};
}

}  // namespace dure::kubernetes
