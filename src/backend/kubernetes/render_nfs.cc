#include <fmt/core.h>

#include "backend/kubernetes/manifest_parts.h"
#include "backend/kubernetes/render.h"
#include "base/text.h"
#include "spec/fields.h"

namespace dure::kubernetes {
namespace {

using nlohmann::json;

constexpr const char* kExports = "/exports";

struct Port {
  const char* name;
  int number;
};
constexpr Port kPorts[] = {{"nfs", 2049}, {"mountd", 20048}, {"rpcbind", 111}};

std::string serverName(const NfsOptions& options) { return options.name + "-server"; }
std::string diskName(const NfsOptions& options) { return options.name + "-disk"; }

json labelsFor(const NfsOptions& options) {
  return {{"app.kubernetes.io/name", options.name}, {"app.kubernetes.io/component", "nfs"}};
}

json metadataFor(const NfsOptions& options, const std::string& name) {
  return {{"name", name}, {"labels", labelsFor(options)}};
}

json serverFor(const NfsOptions& options) {
  const json mount = json::array({{{"name", "disk"}, {"mountPath", kExports}}});
  json ports = json::array();
  for (const Port& port : kPorts) {
    ports.push_back({{"name", port.name}, {"containerPort", port.number}});
  }
  // Tasks are users of their own, and all of them may write.
  const json open = {{"name", "open"},
                     {"image", options.image},
                     {"command", {"chmod", "0777", kExports}},
                     {"volumeMounts", mount}};
  // It serves files through the kernel of its node, which takes all rights there are.
  const json server = {{"name", "nfs"},
                       {"image", options.image},
                       {"ports", ports},
                       {"securityContext", {{"privileged", true}}},
                       {"volumeMounts", mount}};
  const json pod = {
      {"automountServiceAccountToken", false},
      {"initContainers", json::array({open})},
      {"containers", json::array({server})},
      {"volumes", json::array({{{"name", "disk"},
                                {"persistentVolumeClaim", {{"claimName", diskName(options)}}}}})}};
  return {{"apiVersion", "apps/v1"},
          {"kind", "Deployment"},
          {"metadata", metadataFor(options, serverName(options))},
          {"spec",
           {{"replicas", 1},
            // Its disk is on one node at a time.
            {"strategy", {{"type", "Recreate"}}},
            {"selector", {{"matchLabels", labelsFor(options)}}},
            {"template", {{"metadata", {{"labels", labelsFor(options)}}}, {"spec", pod}}}}}};
}

json serviceFor(const NfsOptions& options) {
  json ports = json::array();
  for (const Port& port : kPorts) ports.push_back({{"name", port.name}, {"port", port.number}});
  json spec = {{"selector", labelsFor(options)}, {"ports", ports}};
  if (!options.address.empty()) spec["clusterIP"] = options.address;
  return {{"apiVersion", "v1"},
          {"kind", "Service"},
          {"metadata", metadataFor(options, serverName(options))},
          {"spec", spec}};
}

// A volume is in no namespace, so its name says which one it is for.
std::string volumeName(const NfsOptions& options) {
  return fmt::format("{}-{}", options.name_space, options.name);
}

json volumeFor(const NfsOptions& options) {
  const std::string named =
      fmt::format("{}.{}.svc.cluster.local", serverName(options), options.name_space);
  const std::string server = options.address.empty() ? named : options.address;
  return {{"apiVersion", "v1"},
          {"kind", "PersistentVolume"},
          {"metadata", metadataFor(options, volumeName(options))},
          {"spec",
           {{"accessModes", {"ReadWriteMany"}},
            {"capacity", {{"storage", formatBytes(options.size)}}},
            {"nfs", {{"server", server}, {"path", "/"}}},
            {"persistentVolumeReclaimPolicy", "Retain"},
            {"storageClassName", ""},
            {"claimRef", {{"namespace", options.name_space}, {"name", options.name}}}}}};
}

}  // namespace

Result<std::vector<json>> renderNfs(const NfsOptions& options) {
  // Room for what is appended to it, in a label of DNS.
  if (!spec::isJobName(options.name)) {
    return Error(
        Code::kInvalid,
        fmt::format("--nfs: {} is no name of at most {} lower-case letters, digits and '-' "
                    "that begins with a letter",
                    options.name, spec::kMaxNameLength));
  }
  json disk = claimOf(diskName(options), "ReadWriteOnce", options.size, options.storage_class);
  disk["metadata"]["labels"] = labelsFor(options);
  json claim = claimOf(options.name, "ReadWriteMany", options.size, "");
  claim["metadata"]["labels"] = labelsFor(options);
  // No class at all: the volume below is meant, and no new one.
  claim["spec"]["storageClassName"] = "";
  claim["spec"]["volumeName"] = volumeName(options);
  std::vector<json> objects{disk, serverFor(options), serviceFor(options), volumeFor(options),
                            claim};
  putInto(options.name_space, objects);
  return objects;
}

}  // namespace dure::kubernetes
