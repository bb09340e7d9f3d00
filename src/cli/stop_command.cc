#include <memory>
#include <ostream>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/cluster_pipeline.h"
#include "cli/commands.h"
#include "cli/where_arguments.h"

namespace dure::cli {
namespace {

struct StopArguments {
  std::vector<std::string> names;
  bool now = false;
  bool json = false;
  WhereArguments where;
};

// What a pipeline has left in a cluster: whether there was anything.
Result<bool> endInCluster(Context& context, const runs::RunId& id, bool at_once) {
  auto store = openStore(context);
  if (!store) return false;
  const auto pipeline = ClusterPipeline::open(*store, id);
  if (!pipeline) return pipeline.error();
  return *pipeline ? (*pipeline)->end(at_once) : Result<bool>(false);
}

void stopCommand(Context& context, const StopArguments& arguments) {
  const auto runs = arguments.where.openRuns(context);
  if (!runs) return;
  nlohmann::json report = nlohmann::json::array();
  for (const std::string& name : arguments.names) {
    const auto id = runs->find(name);
    if (!id) {
      context.fail(id.error());
      continue;
    }
    auto stopped = runs->stop(*id, arguments.now, Wait());
    if (!stopped) {
      context.fail(stopped.error());
      continue;
    }
    if (stopped->run.kind == runs::RunKind::kPipeline) {
      const auto ended = endInCluster(context, *id, arguments.now);
      if (!ended) {
        context.fail(ended.error());
        continue;
      }
      stopped->was_running = stopped->was_running || *ended;
    }
    const std::string status = runs::statusName(stopped->run.status);
    report.push_back(
        {{"id", id->text()}, {"was_running", stopped->was_running}, {"status", status}});
    if (arguments.json) continue;
    context.out << id->text() << (stopped->was_running ? " " : " is not running: ") << status
                << "\n";
  }
  if (arguments.json) context.out << report.dump(2) << "\n";
}

}  // namespace

void addStop(CLI::App& app, Context& context) {
  auto arguments = std::make_shared<StopArguments>();
  CLI::App* command = app.add_subcommand("stop", "Stop runs, and return when they are gone");
  command->add_option(kRunArgument, arguments->names, "NAME for its newest run, or NAME.NUMBER")
      ->option_text("RUN…")
      ->required();
  command->add_flag("--now", arguments->now, "Without giving programs time to end");
  command->add_flag("--json", arguments->json, "For programs");
  arguments->where.addTo(*command);
  command->callback([&context, arguments] { stopCommand(context, *arguments); });
}

}  // namespace dure::cli
