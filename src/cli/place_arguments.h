#pragma once

#include <memory>
#include <string>

#include "cli/command.h"
#include "kube/client.h"

namespace dure::cli {

// How a command is told where runs are: on this machine, or in a namespace of a cluster.
struct PlaceArguments {
  std::string on = "local";
  KubeAccessOptions access;

  void addTo(CLI::App& command);
  bool onKubernetes() const { return on == "kubernetes"; }
  // Fails the command if there is no way to a cluster.
  std::unique_ptr<KubeClient> connect(Context& context) const;
};

}  // namespace dure::cli
