#include "backend/kubernetes/manifest_parts.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include <fmt/core.h>

#include "base/text.h"

namespace dure::kubernetes {
namespace {

using nlohmann::json;

// A claim is one volume of a pod, however often it is mounted: kubelets wait for ever for a second
// one of the same claim.
std::string volumeName(const std::vector<spec::Volume>& volumes, std::size_t index) {
  const std::string& claim = volumes[index].claim;
  const auto first = std::find_if(volumes.begin(), volumes.end(), [&](const spec::Volume& volume) {
    return !claim.empty() && volume.claim == claim;
  });
  return fmt::format("volume-{}",
                     first == volumes.end() ? std::ptrdiff_t(index) : first - volumes.begin());
}

std::string cores(double cpus) {
  const auto thousandths = static_cast<std::int64_t>(std::ceil(cpus * 1000));
  return thousandths % 1000 == 0 ? std::to_string(thousandths / 1000)
                                 : fmt::format("{}m", thousandths);
}

bool hasVolume(const spec::Volume& volume, bool chief) {
  return chief || volume.tasks == spec::VolumeTasks::kAll;
}

const char* operatorName(spec::LabelTest test) {
  switch (test) {
    case spec::LabelTest::kIn:
      return "In";
    case spec::LabelTest::kNotIn:
      return "NotIn";
    case spec::LabelTest::kExists:
      return "Exists";
    case spec::LabelTest::kDoesNotExist:
      return "DoesNotExist";
    case spec::LabelTest::kGt:
      return "Gt";
    case spec::LabelTest::kLt:
      return "Lt";
  }
  return "";
}

json tolerationOf(const spec::Toleration& toleration) {
  json out = {{"operator", toleration.op == spec::TolerationTest::kEqual ? "Equal" : "Exists"}};
  if (!toleration.key.empty()) out["key"] = toleration.key;
  if (toleration.op == spec::TolerationTest::kEqual) out["value"] = toleration.value;
  if (!toleration.effect.empty()) out["effect"] = toleration.effect;
  return out;
}

}  // namespace

std::string literalText(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    out += text[i];
    const char next = i + 1 < text.size() ? text[i + 1] : '\0';
    if (text[i] == '$' && (next == '$' || next == '(')) out += '$';
  }
  return out;
}

json wordsOf(const std::vector<std::string>& command) {
  json words = json::array();
  for (const std::string& word : command) words.push_back(literalText(word));
  return words;
}

json variablesOf(const gang::Environment& env) {
  json variables = json::array();
  for (const auto& [name, value] : env) {
    variables.push_back({{"name", name}, {"value", literalText(value)}});
  }
  return variables;
}

json podSecurity(const spec::Job& job) {
  const int user = job.program.user;
  if (user == 0) return {{"runAsUser", 0}};
  return {{"runAsNonRoot", true},
          {"runAsUser", user},
          {"runAsGroup", user},
          {"fsGroup", user},
          {"seccompProfile", {{"type", "RuntimeDefault"}}}};
}

json containerSecurity(const spec::Job& job) {
  if (job.program.user == 0) return json::object();
  return {{"allowPrivilegeEscalation", false}, {"capabilities", {{"drop", {"ALL"}}}}};
}

json volumesOf(const spec::Job& job, bool chief) {
  json out = json::array();
  std::set<std::string> names;
  const std::vector<spec::Volume> volumes = spec::allVolumes(job);
  for (std::size_t i = 0; i < volumes.size(); ++i) {
    const spec::Volume& volume = volumes[i];
    if (!hasVolume(volume, chief)) continue;
    const std::string name = volumeName(volumes, i);
    if (!names.insert(name).second) continue;
    json entry = {{"name", name}};
    if (volume.claim.empty()) {
      entry["hostPath"] = {{"path", volume.host}};
    } else {
      entry["persistentVolumeClaim"] = {{"claimName", volume.claim}};
    }
    out.push_back(std::move(entry));
  }
  return out;
}

json mountsOf(const spec::Job& job, const std::string& workdir, bool chief) {
  json out = json::array();
  const std::vector<spec::Volume> volumes = spec::allVolumes(job);
  for (std::size_t i = 0; i < volumes.size(); ++i) {
    const spec::Volume& volume = volumes[i];
    if (!hasVolume(volume, chief)) continue;
    const std::filesystem::path path = std::filesystem::path(workdir) / volume.path;
    json entry = {{"name", volumeName(volumes, i)},
                  {"mountPath", path.lexically_normal().string()}};
    if (volume.read_only) entry["readOnly"] = true;
    if (!volume.sub_path.empty()) entry["subPath"] = volume.sub_path;
    out.push_back(std::move(entry));
  }
  return out;
}

int portOf(const spec::Job& job) {
  constexpr int kDefault = 29500;  // PyTorch's own, and what others expect
  return job.port != 0 ? job.port : kDefault;
}

json resourcesOf(const spec::Resources& resources) {
  json out = json::object();
  const std::int64_t most =
      resources.limits.memory > 0 ? resources.limits.memory : resources.memory;
  if (resources.cpus > 0) out["requests"]["cpu"] = cores(resources.cpus);
  if (resources.memory > 0) out["requests"]["memory"] = formatBytes(resources.memory);
  if (resources.limits.cpus > 0) out["limits"]["cpu"] = cores(resources.limits.cpus);
  if (most > 0) out["limits"]["memory"] = formatBytes(most);
  return out;
}

json resourcesOf(const spec::Job& job, int gpus) {
  json out = resourcesOf(job.resources);
  // Of an extended resource, the limit is the request.
  if (gpus > 0) out["limits"][job.nodes.gpu] = std::to_string(gpus);
  return out;
}

void addPullSecrets(const spec::Job& job, json& pod_spec) {
  for (const std::string& secret : job.kubernetes.pull_secrets) {
    pod_spec["imagePullSecrets"].push_back({{"name", secret}});
  }
}

json schedulingOf(const spec::Job& job) {
  json out = json::object();
  if (!job.nodes.selector.empty()) out["nodeSelector"] = job.nodes.selector;
  json rules = json::array();
  for (const spec::NodeRule& rule : job.nodes.affinity) {
    json entry = {{"key", rule.key}, {"operator", operatorName(rule.op)}};
    if (!rule.values.empty()) entry["values"] = rule.values;
    rules.push_back(std::move(entry));
  }
  if (!rules.empty()) {
    out["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = {
        {"nodeSelectorTerms", json::array({{{"matchExpressions", std::move(rules)}}})}};
  }
  for (const spec::Toleration& toleration : job.nodes.tolerations) {
    out["tolerations"].push_back(tolerationOf(toleration));
  }
  return out;
}

std::vector<json> nodeTolerations() {
  constexpr int kPatience = 30;
  std::vector<json> tolerations;
  for (const char* taint : {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}) {
    tolerations.push_back({{"key", taint},
                           {"operator", "Exists"},
                           {"effect", "NoExecute"},
                           {"tolerationSeconds", kPatience}});
  }
  return tolerations;
}

json claimOf(const std::string& name, const std::string& access_mode, std::int64_t size,
             const std::string& storage_class) {
  json spec = {{"accessModes", json::array({access_mode})},
               {"resources", {{"requests", {{"storage", formatBytes(size)}}}}}};
  if (!storage_class.empty()) spec["storageClassName"] = storage_class;
  return {{"apiVersion", "v1"},
          {"kind", "PersistentVolumeClaim"},
          {"metadata", {{"name", name}}},
          {"spec", std::move(spec)}};
}

}  // namespace dure::kubernetes
