#include <memory>
#include <ostream>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "backend/kubernetes/cluster_volume.h"
#include "cli/commands.h"

namespace dure::cli {

void addPipelineVolume(CLI::App& app, Context& context) {
  auto root = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand(
      "pipeline-volume", "Look after the outputs of a pipeline, from a pod that has its claim");
  command->group("");  // started by dure, not by hand
  command->add_option("root", *root, "The directory of the run")->required();
  command->callback([&context, root] {
    const auto answer = kubernetes::serveVolume(*root, context.program);
    if (!answer) return context.fail(answer.error());
    context.out << answer->dump() << "\n";
  });
}

}  // namespace dure::cli
