#include "backend/kubernetes/storage_class.h"

#include <algorithm>

#include <nlohmann/json.hpp>

namespace dure::kubernetes {

using nlohmann::json;

Result<bool> hasStorageClass(kube::KubeClient& client, const std::string& name) {
  const auto classes = client.listAll({kube::kinds::kStorageClasses, "", "", ""}, {});
  if (!classes && classes.error().code() == Code::kDenied) return true;
  if (!classes) return classes.error();
  return std::any_of(classes->begin(), classes->end(), [&](const json& each) {
    const json& metadata = each.at("metadata");
    if (!name.empty()) return metadata.at("name") == name;
    return metadata.value("annotations", json::object())
               .value("storageclass.kubernetes.io/is-default-class", "") == "true";
  });
}

Error noStorageClass(const std::string& name) {
  return Error(Code::kInvalid, "kubernetes.storage.class: there is no storage class " + name);
}

}  // namespace dure::kubernetes
