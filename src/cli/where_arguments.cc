#include "cli/where_arguments.h"

#include <CLI/CLI.hpp>

#include "runs/local_runs.h"

namespace dure::cli {
namespace {

// A person waits.
constexpr Duration kRequestPatience{15'000};

}  // namespace

void WhereArguments::addTo(CLI::App& command) {
  CLI::Option* where = command.add_option("--on", on, "Where: this machine, or a cluster")
                           ->check(CLI::IsMember({"local", "kubernetes"}))
                           ->option_text("local|kubernetes");
  command
      .add_option("-n,--namespace", access.name_space, "Of the cluster, if not the context's own")
      ->option_text("NAME")
      ->needs(where);
  command.add_option("--context", access.context, "Of the kubeconfig, if not its current one")
      ->option_text("NAME")
      ->needs(where);
}

std::unique_ptr<runs::Runs> WhereArguments::openRuns(Context& context) const {
  if (onKubernetes()) return openCluster(context);
  auto store = openStore(context);
  if (!store) return nullptr;
  return std::make_unique<runs::LocalRuns>(*std::move(store));
}

std::unique_ptr<kubernetes::KubeRuns> WhereArguments::openCluster(Context& context) const {
  auto found = kube::findAccess(access);
  if (!found) {
    context.fail(found.error());
    return nullptr;
  }
  return std::make_unique<kubernetes::KubeRuns>(
      std::make_unique<kube::KubeClient>(*std::move(found), kRequestPatience));
}

}  // namespace dure::cli
