#pragma once

#include <functional>
#include <memory>
#include <string>

#include "cli/command.h"
#include "kube/client.h"

namespace dure::cli {

// How a command is told where runs are: on this machine, or in a namespace of a cluster.
struct PlaceArguments {
  std::string on = "local";
  kube::KubeAccessOptions access;

  void addTo(CLI::App& command);
  bool onKubernetes() const { return on == "kubernetes"; }
  // What is done to one run: here, or there.
  template <typename Done>
  using Doing = std::function<Result<Done>(const std::string& name)>;
  // Chooses between the two. Nothing, and the command fails, if there is no way to the runs.
  template <typename Done>
  Doing<Done> choose(
      Context& context,
      const std::function<Result<Done>(runs::RunStore& store, const std::string& name)>& here,
      const std::function<Result<Done>(kube::KubeClient& client, const std::string& name)>& there)
      const {
    if (onKubernetes()) {
      // Shared, since functions can be copied.
      const std::shared_ptr<kube::KubeClient> client = connect(context);
      if (!client) return nullptr;
      return [client, there](const std::string& name) { return there(*client, name); };
    }
    auto opened = openStore(context);
    if (!opened) return nullptr;
    const auto store = std::make_shared<runs::RunStore>(*std::move(opened));
    return [store, here](const std::string& name) { return here(*store, name); };
  }
  // Fails the command if there is no way to a cluster.
  std::unique_ptr<kube::KubeClient> connect(Context& context) const;
};

}  // namespace dure::cli
