#pragma once

#include <string>

#include "kube/client.h"

namespace dure::kubernetes {

// Whether claims of this class can be had, or with an empty name of the cluster's default one. True
// also if this user may not see that: then whoever makes the claim learns it.
Result<bool> hasStorageClass(kube::KubeClient& client, const std::string& name);
Error noStorageClass(const std::string& name);

}  // namespace dure::kubernetes
