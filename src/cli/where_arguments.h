#pragma once

#include <memory>
#include <string>

#include "backend/kubernetes/kube_runs.h"
#include "cli/command.h"
#include "kube/access.h"
#include "runs/runs.h"

namespace dure::cli {

// The options that say where runs are: on this machine, or in a namespace of a cluster (--on).
struct WhereArguments {
  std::string on = "local";
  kube::KubeAccessOptions access;

  void addTo(CLI::App& command);
  bool onKubernetes() const { return on == "kubernetes"; }

  // The runs there. Nothing, and the command fails, if they cannot be reached.
  std::unique_ptr<runs::Runs> openRuns(Context& context) const;
  // For what is done on a cluster alone.
  std::unique_ptr<kubernetes::KubeRuns> openCluster(Context& context) const;
};

}  // namespace dure::cli
