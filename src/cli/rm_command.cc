#include <memory>
#include <ostream>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/cluster_pipeline.h"
#include "cli/commands.h"
#include "cli/where_arguments.h"

namespace dure::cli {
namespace {

struct RmArguments {
  std::vector<std::string> names;
  bool force = false;
  bool json = false;
  WhereArguments where;
};

void rmCommand(Context& context, const RmArguments& arguments) {
  const auto runs = arguments.where.openRuns(context);
  if (!runs) return;
  nlohmann::json removed = nlohmann::json::array();
  for (const std::string& name : arguments.names) {
    const auto id = runs->find(name);
    if (!id) {
      context.fail(id.error());
      continue;
    }
    const auto run = runs->read(*id);
    const bool pipeline = run && run->kind == runs::RunKind::kPipeline;
    const Status gone = pipeline ? removePipeline(context, *runs, *id, arguments.force)
                                 : runs->remove(*id, arguments.force, Wait());
    if (!gone) {
      context.fail(gone.error());
      continue;
    }
    removed.push_back(id->text());
    if (!arguments.json) context.out << "removed " << id->text() << "\n";
  }
  if (arguments.json) context.out << nlohmann::json{{"removed", removed}}.dump(2) << "\n";
}

}  // namespace

void addRm(CLI::App& app, Context& context) {
  auto arguments = std::make_shared<RmArguments>();
  CLI::App* command = app.add_subcommand("rm", "Remove the records of runs: events, metrics, logs");
  command->footer(
      "What a program wrote itself, models and checkpoints, stays. The directory that the steps of "
      "a\npipeline share goes with its record: dure fetch NAME STEP/FILE brings home what is in "
      "it.");
  command->add_option(kRunArgument, arguments->names, "NAME for its newest run, or NAME.NUMBER")
      ->option_text("RUN…")
      ->required();
  command->add_flag("-f,--force", arguments->force, "Stop those that run");
  command->add_flag("--json", arguments->json, "For programs");
  arguments->where.addTo(*command);
  command->callback([&context, arguments] { rmCommand(context, *arguments); });
}

}  // namespace dure::cli
