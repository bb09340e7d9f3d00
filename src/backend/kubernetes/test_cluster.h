#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "backend/kubernetes/names.h"
#include "backend/kubernetes/objects.h"
#include "backend/kubernetes/test_jobs.h"
#include "kube/client.h"
#include "kube/test_api.h"
#include "kube/test_kubelet.h"

namespace dure::kubernetes {

inline const kube::KubeAddress kLease{kube::kinds::kLeases, kPlacementNamespace, kPlacementLease,
                                      ""};

// A cluster in memory, with a client that does not wait for long.
class ClusterTest : public testing::Test {
 protected:
  // Objects of the namespace of kRun.
  static kube::KubeAddress at(const kube::KubeKind& kind, const std::string& name) {
    return {kind, kRun.name_space, name, ""};
  }
  static kube::KubeAddress podAt(const std::string& name) { return at(kube::kinds::kPods, name); }
  static kube::KubeAddress mapAt(const std::string& name) {
    return at(kube::kinds::kConfigMaps, name);
  }
  // Everything there is but namespaces and nodes, as "pods/train-1-worker-0-g1".
  std::vector<std::string> everything() const {
    using namespace kube::kinds;
    std::vector<std::string> all;
    for (const kube::KubeKind& kind :
         {kConfigMaps, kSecrets, kServices, kServiceAccounts, kRoles, kRoleBindings, kClusterRoles,
          kClusterRoleBindings, kJobs, kPods, kLeases, kEvents}) {
      for (const std::string& name : api_.names(kind)) {
        all.push_back(std::string(kind.plural) + "/" + name);
      }
    }
    return all;
  }

  kube::FakeApi api_;
  kube::FakeKubelet kubelet_{api_, kRun.name_space};
  kube::KubeClient client_{api_.access(kRun.name_space), Duration{2'000}};
};

}  // namespace dure::kubernetes
