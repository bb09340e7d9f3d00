#include "backend/kubernetes/objects.h"

#include <cstdlib>

#include <fmt/core.h>

#include "backend/kubernetes/manifest_parts.h"
#include "base/log.h"
#include "gang/environment.h"
#include "spec/print.h"

namespace dure::kubernetes {
namespace {

using nlohmann::json;

constexpr int kStorePort = 29400;

json metadataOf(const KubeRun& run, const std::string& name, const char* part, const json& owner) {
  json metadata = {{"name", name}, {"namespace", run.name_space}, {"labels", labelsOf(run, part)}};
  if (!owner.is_null()) metadata["ownerReferences"] = json::array({owner});
  return metadata;
}

json clusterMetadata(const KubeRun& run, const json& owner) {
  return {{"name", run.clusterObject()},
          {"labels", labelsOf(run, "role")},
          {"ownerReferences", json::array({owner})}};
}

json rule(const char* group, std::vector<std::string> resources, std::vector<std::string> verbs,
          const std::string& only = "") {
  json rule = {{"apiGroups", json::array({group})},
               {"resources", std::move(resources)},
               {"verbs", std::move(verbs)}};
  if (!only.empty()) rule["resourceNames"] = json::array({only});
  return rule;
}

// The manager holds the folder, and what of it is on its way to the agents.
spec::Resources managerNeeds(const spec::Job& job, std::size_t folder_bytes) {
  spec::Resources needs = job.kubernetes.manager;
  needs.memory += static_cast<std::int64_t>(folder_bytes);
  if (needs.limits.memory > 0) needs.limits.memory += 2 * static_cast<std::int64_t>(folder_bytes);
  return needs;
}

std::string imageNamed(const char* variable, const char* name) {
  const char* image = std::getenv(variable);
  return image != nullptr && *image != '\0' ? image : fmt::format("{}:{}", name, DURE_VERSION);
}

}  // namespace

KubeImages imagesFromEnvironment() {
  return {.dure = imageNamed(variables::kImage, "dure"),
          .trainer = imageNamed(variables::kTrainerImage, "dure-trainer")};
}

void addLogVariable(json& variables) {
  const char* level = std::getenv(kLogVariable);
  if (level != nullptr) variables.push_back({{"name", kLogVariable}, {"value", level}});
}

json ownerReference(const json& object) {
  return {{"apiVersion", object.at("apiVersion")},
          {"kind", object.at("kind")},
          {"name", object.at("metadata").at("name")},
          {"uid", object.at("metadata").at("uid")}};
}

gang::Site siteOf(const KubeRun& run, const spec::Job& job, const std::string& manager) {
  gang::Site site;
  site.run = run.text();
  site.address = run.host("manager");
  site.listen = manager;
  site.names = true;
  site.interface = "eth0";
  site.agent = kPodAgent;
  site.trainer = "dure-trainer";
  site.directory = std::string(kPodDirectory) + "/tasks";
  site.workdir = kPodWorkdir;
  site.root = job.program.user == 0;
  site.lease = job.timeouts.heartbeat;
  if (gang::strategyOf(job).needsStore()) site.store_port = kStorePort;
  // Each task has an address of its own, so one port does for all. With a split the plan decides
  // how many there are; no more than GPUs.
  const int most = job.gpus > 0 ? job.gpus : job.workers.max;
  for (const gang::Task& task :
       gang::makeRoster(
           job, gang::Layout{.workers = most,
                .gpus = std::vector<int>(job.gpus > 0 ? static_cast<std::size_t>(most) : 0, 1)})
           .tasks) {
    site.tasks[task.name()] = {.address = run.host(task.name()), .port = portOf(job)};
  }
  return site;
}

KubeObject recordObject(const KubeRun& run, const spec::Job& job) {
  return {kube::kinds::kConfigMaps,
          {{"apiVersion", "v1"},
           {"kind", "ConfigMap"},
           {"metadata", metadataOf(run, run.object(), "record", nullptr)},
           {"data", {{kJobKey, spec::printJob(job)}}}}};
}

std::vector<KubeObject> supportObjects(const KubeRun& run, const spec::Job& job,
                                       const std::string& secret, const json& owner) {
  const std::string name = run.object();
  const auto metadata = [&](const char* part) { return metadataOf(run, name, part, owner); };
  std::vector<KubeObject> objects;
  objects.push_back({kube::kinds::kSecrets,
                     {{"apiVersion", "v1"},
                      {"kind", "Secret"},
                      {"metadata", metadata("secret")},
                      {"stringData", {{kSecretKey, secret}}}}});
  // Names for the pods: TASK.RUN, from when they run until they end. (Were unready ones published
  // too, older versions would keep the address of a pod that has failed beside its successor's.)
  json ports = json::array({{{"name", "ranks"}, {"port", portOf(job)}}});
  objects.push_back(
      {kube::kinds::kServices,
       {{"apiVersion", "v1"},
        {"kind", "Service"},
        {"metadata", metadata("service")},
        {"spec",
         {{"clusterIP", "None"},
          {"ports", ports},
          {"selector", {{labels::kJob, run.job}, {labels::kRun, std::to_string(run.number)}}}}}}});
  return objects;
}

std::vector<KubeObject> accountObjects(const KubeRun& run, EventRights events, const json& owners) {
  const std::string name = run.object();
  const auto metadata = [&](const char* part) {
    json own = metadataOf(run, name, part, nullptr);
    own["ownerReferences"] = owners;
    return own;
  };
  json rules = {rule("", {"pods"}, {"get", "list", "watch", "create", "delete"}),
                rule("", {"configmaps"}, {"get", "list", "watch", "create", "patch"}),
                rule("batch", {"jobs"}, {"get", "patch", "delete"}, run.object())};
  if (events == EventRights::kGranted) rules.push_back(rule("", {"events"}, {"create"}));
  return {
      {kube::kinds::kRoles,
       {{"apiVersion", "rbac.authorization.k8s.io/v1"},
        {"kind", "Role"},
        {"metadata", metadata("role")},
        {"rules", rules}}},
      {kube::kinds::kServiceAccounts,
       {{"apiVersion", "v1"}, {"kind", "ServiceAccount"}, {"metadata", metadata("account")}}},
      {kube::kinds::kRoleBindings,
       {{"apiVersion", "rbac.authorization.k8s.io/v1"},
        {"kind", "RoleBinding"},
        {"metadata", metadata("role")},
        {"roleRef", {{"apiGroup", "rbac.authorization.k8s.io"}, {"kind", "Role"}, {"name", name}}},
        {"subjects",
         {{{"kind", "ServiceAccount"}, {"name", name}, {"namespace", run.name_space}}}}}}};
}

KubeObject clusterRole(const KubeRun& run, const json& owner) {
  return {
      kube::kinds::kClusterRoles,
      {{"apiVersion", "rbac.authorization.k8s.io/v1"},
       {"kind", "ClusterRole"},
       {"metadata", clusterMetadata(run, owner)},
       {"rules",
        {rule("", {"nodes", "pods"}, {"list"}),
         // What does not exist has no name to be restricted to.
         rule("coordination.k8s.io", {"leases"}, {"create"}),
         rule("coordination.k8s.io", {"leases"}, {"get", "delete"}, kPlacementLease),
         rule("rbac.authorization.k8s.io", {"clusterroles"}, {"delete"}, run.clusterObject())}}}};
}

KubeObject clusterBinding(const KubeRun& run, const json& owner) {
  return {
      kube::kinds::kClusterRoleBindings,
      {{"apiVersion", "rbac.authorization.k8s.io/v1"},
       {"kind", "ClusterRoleBinding"},
       {"metadata", clusterMetadata(run, owner)},
       {"roleRef",
        {{"apiGroup", "rbac.authorization.k8s.io"},
         {"kind", "ClusterRole"},
         {"name", run.clusterObject()}}},
       {"subjects",
        {{{"kind", "ServiceAccount"}, {"name", run.object()}, {"namespace", run.name_space}}}}}};
}

KubeObject managerObject(const KubeRun& run, const spec::Job& job, const KubeImages& images,
                         std::size_t folder_bytes, const json& owner) {
  const json labels = labelsOf(run, "manager");
  const auto field = [](const char* name, const char* path) {
    return json{{"name", name}, {"valueFrom", {{"fieldRef", {{"fieldPath", path}}}}}};
  };
  json env = json::array(
      {field(variables::kPodIp, "status.podIP"),
       {{"name", variables::kImage}, {"value", images.dure}},
       {{"name", variables::kTrainerImage}, {"value", images.trainer}},
       {{"name", variables::kSecret},
        {"valueFrom", {{"secretKeyRef", {{"name", run.object()}, {"key", kSecretKey}}}}}}});
  addLogVariable(env);
  json container = {{"name", "manager"},
                    {"image", images.dure},
                    {"command", {"dure", "coordinate", "--namespace", run.name_space, run.text()}},
                    {"env", env},
                    {"securityContext",
                     {{"allowPrivilegeEscalation", false},
                      {"readOnlyRootFilesystem", true},
                      {"capabilities", {{"drop", {"ALL"}}}}}},
                    {"resources", resourcesOf(managerNeeds(job, folder_bytes))}};
  if (!job.program.pull.empty()) container["imagePullPolicy"] = job.program.pull;
  json pod = {
      {"serviceAccountName",
       job.kubernetes.account.empty() ? run.object() : job.kubernetes.account},
      {"hostname", "manager"},
      {"subdomain", run.object()},
      // Another pod, not another container: this one stays with its log, also when the Job fails.
      {"restartPolicy", "Never"},
      {"tolerations", nodeTolerations()},
      // To tell what is left to be told.
      {"terminationGracePeriodSeconds", 30},
      {"securityContext",
       {{"runAsNonRoot", true},
        {"runAsUser", 1000},
        {"fsGroup", 1000},
        {"seccompProfile", {{"type", "RuntimeDefault"}}}}},
      {"containers", json::array({container})}};
  addPullSecrets(job, pod);
  return {kube::kinds::kJobs,
          {{"apiVersion", "batch/v1"},
           {"kind", "Job"},
           {"metadata", metadataOf(run, run.object(), "manager", owner)},
           {"spec",
            // A manager that dies comes back, however often; until a run has failed for good.
            {{"backoffLimit", 100'000},
             {"template", {{"metadata", {{"labels", labels}}}, {"spec", pod}}}}}}};
}

}  // namespace dure::kubernetes
