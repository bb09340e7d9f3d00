#include "backend/kubernetes/render.h"

#include <algorithm>
#include <filesystem>

#include <fmt/core.h>

#include "backend/kubernetes/manifest_parts.h"
#include "backend/kubernetes/names.h"
#include "gang/environment.h"
#include "gang/roster.h"

namespace dure::kubernetes {
namespace {

using nlohmann::json;

constexpr const char* kApplication = "app.kubernetes.io/name";
constexpr const char* kComponent = "app.kubernetes.io/component";
// Tells these pods from those of `dure run`, which may have the same job and task.
constexpr const char* kRendered = "rendered";
// Each task has a directory of its own in it, which it may write to.
constexpr const char* kDirectory = "/dure";
constexpr const char* kInspectorImage = "busybox:1.36";

json labelsFor(const spec::Job& job, const std::string& component) {
  return {{kApplication, job.name},
          {kComponent, component},
          {labels::kJob, job.name},
          {labels::kPart, kRendered}};
}

json labelsFor(const spec::Job& job, const gang::Task& task) {
  json all = labelsFor(job, gang::roleName(task.role));
  all[labels::kTask] = task.name();
  return all;
}

// Of the task's Job and Service, and the host name of its pod.
std::string objectName(const spec::Job& job, const gang::Task& task) {
  return fmt::format("{}-{}", job.name, task.name());
}

std::string settingsName(const spec::Job& job) { return job.name + "-job"; }

void addUnlessEmpty(json& object, const char* key, json value) {
  if (!value.empty()) object[key] = std::move(value);
}

Error refusal(const std::string& reason) { return Error(Code::kInvalid, reason); }

bool isRelative(const spec::Volume& volume) { return !volume.path.starts_with('/'); }

// Why the tasks of this job cannot be rendered.
Status checkTasks(const spec::Job& job) {
  constexpr const char* kInstead = "use dure run --on kubernetes";
  if (gang::strategyOf(job).needsAgent()) {
    return refusal(
        fmt::format("strategy: {} jobs start their processes through Dure's agent, which "
                    "plain manifests do not have; {}",
                    spec::strategyName(job.strategy), kInstead));
  }
  if (job.gpus > 0) {
    return refusal(
        fmt::format("gpus: the split into workers follows from what is free in the "
                    "cluster; give workers and resources.gpus, or {}",
                    kInstead));
  }
  const gang::Roster roster = gang::makeRoster(job, job.workers.max);
  const auto many = std::find_if(roster.tasks.begin(), roster.tasks.end(),
                                 [](const gang::Task& task) { return task.processes > 1; });
  if (many != roster.tasks.end()) {
    return refusal(
        fmt::format("processes: {} has {}, and a rendered pod starts one; give processes: "
                    "1, a command that starts the others (torchrun), or {}",
                    many->name(), many->processes, kInstead));
  }
  if (job.program.image.empty() && !spec::runsTrainer(job)) {
    return refusal("program.image: is missing; a pod needs an image that has the program");
  }
  const std::vector<spec::Volume> volumes = spec::allVolumes(job);
  const auto relative = std::find_if(volumes.begin(), volumes.end(), isRelative);
  if (relative != volumes.end() && !spec::runsTrainer(job)) {
    return refusal(
        fmt::format("volumes: the path {} is relative, but where the image starts its "
                    "programs is not known here; give an absolute path",
                    relative->path));
  }
  return {};
}

// What each rank is told: as everywhere, but its peers are found at their services.
gang::Site siteFor(const spec::Job& job, const gang::Roster& roster, const gang::Task& task) {
  gang::Site site;
  for (const gang::Task& member : roster.tasks) {
    site.tasks[member.name()] = {.address = objectName(job, member), .port = portOf(job)};
  }
  site.directory = kDirectory;
  site.trainer = "dure-trainer";
  site.root = job.program.user == 0;
  // A program starts where its image says. The trainer starts where it may write.
  if (spec::runsTrainer(job)) site.workdir = site.taskDirectory(task.name());
  return site;
}

json podFor(const spec::Job& job, const gang::Roster& roster, const gang::Task& task,
            const std::string& trainer_image) {
  const gang::LaunchStrategy& strategy = gang::strategyOf(job);
  const gang::TaskFiles files = strategy.files(job, roster, task);
  const bool chief = &task == &roster.tasks.front();
  const gang::Site site = siteFor(job, roster, task);
  const std::string own = site.taskDirectory(task.name());
  gang::Environment env = gang::environmentOf(job, roster, site, task, 0, 1);
  // Whoever has no entry in the image's list of users has / for a home, and may not write there.
  if (job.program.user != 0) env.try_emplace("HOME", own);

  json mounts = mountsOf(job, site.workdir, chief);
  json volumes = volumesOf(job, chief);
  const auto mount = [&](const char* name, const std::string& path, json volume) {
    mounts.push_back({{"name", name}, {"mountPath", path}});
    volume["name"] = name;
    volumes.push_back(std::move(volume));
  };
  mount("task", own, {{"emptyDir", json::object()}});
  // What containers get by themselves is too small for data loaders.
  mount("shm", "/dev/shm", {{"emptyDir", {{"medium", "Memory"}}}});
  for (const auto& [name, text] : files) {
    mounts.push_back({{"name", "job"}, {"mountPath", own + "/" + name}, {"subPath", name}});
  }
  if (!files.empty()) {
    volumes.push_back({{"name", "job"}, {"configMap", {{"name", settingsName(job)}}}});
  }

  json container = {{"name", task.name()},
                    {"image", job.program.image.empty() ? trainer_image : job.program.image},
                    {"command", wordsOf(strategy.command(job, site))},
                    {"env", variablesOf(env)},
                    {"ports", {{{"containerPort", site.tasks.at(task.name()).port}}}},
                    {"volumeMounts", std::move(mounts)}};
  addUnlessEmpty(container, "resources", resourcesOf(job, task.gpus));
  addUnlessEmpty(container, "securityContext", containerSecurity(job));
  if (!job.program.pull.empty()) container["imagePullPolicy"] = job.program.pull;
  if (!site.workdir.empty()) container["workingDir"] = site.workdir;

  json spec = schedulingOf(job);
  // Its own name leads a program to its own pod, without the way through the service.
  spec["hostname"] = objectName(job, task);
  // A failed pod stays, and its log with it; the next one may go to another node.
  spec["restartPolicy"] = "Never";
  spec["automountServiceAccountToken"] = false;
  spec["enableServiceLinks"] = false;
  spec["terminationGracePeriodSeconds"] = job.timeouts.stop.count() / 1000;
  spec["securityContext"] = podSecurity(job);
  addPullSecrets(job, spec);
  spec["containers"] = json::array({std::move(container)});
  spec["volumes"] = std::move(volumes);
  return spec;
}

// An address that stays when the pod is replaced.
json serviceFor(const spec::Job& job, const gang::Task& task) {
  const json selector = {
      {labels::kJob, job.name}, {labels::kPart, kRendered}, {labels::kTask, task.name()}};
  return {
      {"apiVersion", "v1"},
      {"kind", "Service"},
      {"metadata", {{"name", objectName(job, task)}, {"labels", labelsFor(job, task)}}},
      {"spec", {{"selector", selector}, {"ports", {{{"name", "ranks"}, {"port", portOf(job)}}}}}}};
}

// Seconds, rounded up.
std::int64_t seconds(Duration duration) { return (duration.count() + 999) / 1000; }

json jobFor(const spec::Job& job, const gang::Task& task, json pod) {
  const json all = labelsFor(job, task);
  json spec = {{"completions", 1},
               {"parallelism", 1},
               {"backoffLimit", job.restarts.limit},
               {"template", {{"metadata", {{"labels", all}}}, {"spec", std::move(pod)}}}};
  if (job.deadline.count() > 0) spec["activeDeadlineSeconds"] = seconds(job.deadline);
  if (job.ttl.count() > 0) spec["ttlSecondsAfterFinished"] = seconds(job.ttl);
  return {{"apiVersion", "batch/v1"},
          {"kind", "Job"},
          {"metadata", {{"name", objectName(job, task)}, {"labels", all}}},
          {"spec", std::move(spec)}};
}

// The files that all tasks are given, made from the job without what its pods are made of.
gang::TaskFiles filesFor(const spec::Job& job, const gang::Roster& roster) {
  spec::Job inside = job;
  inside.program = {};
  inside.volumes.clear();
  inside.nodes = {};
  inside.kubernetes = {};
  inside.checkpoint.claim.clear();
  inside.render = {};
  return gang::strategyOf(job).files(inside, roster, roster.tasks.front());
}

json settingsFor(const spec::Job& job, const gang::TaskFiles& files) {
  return {{"apiVersion", "v1"},
          {"kind", "ConfigMap"},
          {"metadata", {{"name", settingsName(job)}, {"labels", labelsFor(job, "job")}}},
          {"data", files}};
}

// Sees what the chief saw, and waits for somebody to look.
json inspectorFor(const spec::Job& job) {
  const bool own = !job.program.image.empty();
  json container = {{"name", "inspector"},
                    {"image", own ? job.program.image : kInspectorImage},
                    {"command", {"tail", "-f", "/dev/null"}},
                    {"volumeMounts", mountsOf(job, "/", true)}};
  addUnlessEmpty(container, "securityContext", containerSecurity(job));
  if (!job.program.pull.empty()) container["imagePullPolicy"] = job.program.pull;
  json spec = schedulingOf(job);
  spec["restartPolicy"] = "Always";
  spec["automountServiceAccountToken"] = false;
  spec["enableServiceLinks"] = false;
  spec["terminationGracePeriodSeconds"] = 0;
  spec["securityContext"] = podSecurity(job);
  addPullSecrets(job, spec);
  spec["containers"] = json::array({std::move(container)});
  spec["volumes"] = volumesOf(job, true);
  return {
      {"apiVersion", "v1"},
      {"kind", "Pod"},
      {"metadata", {{"name", job.name + "-inspector"}, {"labels", labelsFor(job, "inspector")}}},
      {"spec", std::move(spec)}};
}

}  // namespace

Result<std::vector<json>> renderJob(const spec::Job& job, const std::string& trainer_image) {
  const spec::Render& wanted = job.render;
  if (!wanted.deploy && !wanted.claim && !wanted.inspector) {
    return refusal(
        "render: deploy, claim and inspector are all false, so there is nothing to print");
  }
  std::vector<json> objects;
  if (wanted.claim) {
    objects.push_back(
        claimOf(job.checkpoint.claim, "ReadWriteOnce", wanted.size, wanted.storage_class));
    objects.back()["metadata"]["labels"] = labelsFor(job, "checkpoint");
  }
  if (wanted.inspector) objects.push_back(inspectorFor(job));
  if (!wanted.deploy) return objects;

  if (auto possible = checkTasks(job); !possible) return std::move(possible).error();
  const gang::Roster roster = gang::makeRoster(job, job.workers.max);
  const gang::TaskFiles files = filesFor(job, roster);
  if (!files.empty()) objects.push_back(settingsFor(job, files));
  // Names first: a program that starts finds those of all the others.
  for (const gang::Task& task : roster.tasks) objects.push_back(serviceFor(job, task));
  for (const gang::Task& task : roster.tasks) {
    objects.push_back(jobFor(job, task, podFor(job, roster, task, trainer_image)));
  }
  return objects;
}

}  // namespace dure::kubernetes
