#pragma once

#include <string>
#include <vector>

#include "spec/tree.h"

namespace dure::spec {

// Puts what was written under another name (roles.worker, program.env) where it belongs. If both
// are given, the one from the later source counts; in one source they must agree.
void moveAliases(TreeNode& root, std::vector<Finding>& findings);

// Replaces what is at `path` by `value`, and makes the objects on the way.
void setAtPath(TreeNode& root, const std::string& path, TreeNode value,
               std::vector<Finding>& findings);

// Whether `path` is that of one environment variable, whose value is taken as it is.
bool isEnvironmentVariable(const std::string& path);

}  // namespace dure::spec
