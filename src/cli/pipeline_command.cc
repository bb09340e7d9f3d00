#include <memory>
#include <ostream>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <fmt/core.h>

#include "base/text.h"
#include "cli/cluster_pipeline.h"
#include "cli/commands.h"
#include "cli/pipeline_run.h"
#include "cli/table.h"
#include "pipeline/graph.h"
#include "pipeline/load.h"
#include "pipeline/output_tree.h"

namespace dure::cli {
namespace {

struct PipelineArguments {
  std::string file;
  std::vector<std::string> sets;
  std::string name;
  std::string resume;
  PipelineRunOptions options;
  bool json = false;

  void addFileTo(CLI::App& command) {
    command.add_option("pipeline", file, "The pipeline file; - reads it from standard input")
        ->option_text("PIPELINE.yaml");
    command.add_option("--set", sets, "Set a parameter: --set workers=5")
        ->option_text("NAME=VALUE")
        ->allow_extra_args(false);
  }
};

// Nothing, and every problem is printed, if there is one.
std::optional<pipeline::LoadedPipeline> loadOrExplain(Context& context,
                                                      const PipelineArguments& arguments) {
  std::vector<pipeline::Setting> settings;
  for (const std::string& pair : arguments.sets) {
    const std::size_t equals = pair.find('=');
    if (equals == std::string::npos || equals == 0) {
      context.mistake("--set: must be NAME=VALUE, got \"" + pair + "\"");
      return std::nullopt;
    }
    const std::string name = pair.substr(0, equals);
    settings.push_back({"--set " + name, name, pair.substr(equals + 1)});
  }
  auto loaded = pipeline::loadPipelineFile(arguments.file, settings);
  if (loaded.ok()) return loaded;
  if (arguments.json) {
    nlohmann::json problems = nlohmann::json::array();
    for (const spec::Problem& problem : loaded.problems) {
      problems.push_back({{"file", problem.file},
                          {"line", problem.line},
                          {"column", problem.column},
                          {"field", problem.field},
                          {"message", problem.message}});
    }
    context.out << nlohmann::json{{"ok", false}, {"problems", problems}}.dump(2) << "\n";
  } else {
    for (const spec::Problem& problem : loaded.problems) context.err << problem.text() << "\n";
  }
  context.code = kMistake;
  return std::nullopt;
}

void pipelineRunCommand(Context& context, const PipelineArguments& arguments) {
  auto store = openStore(context);
  if (!store) return;
  if (!arguments.resume.empty()) {
    if (!arguments.file.empty() || !arguments.sets.empty() ||
        arguments.options.where.onKubernetes()) {
      return context.mistake(
          "--resume continues a run as it is, where it is: it takes no pipeline file, no --set and "
          "no --on");
    }
    context.code = resumePipeline(context, *store, arguments.resume, arguments.options);
    return;
  }
  if (arguments.file.empty()) {
    return context.mistake("nothing to run: give a pipeline file (dure pipeline run FILE.yaml)");
  }
  const auto loaded = loadOrExplain(context, arguments);
  if (loaded) context.code = runPipeline(context, *store, *loaded, arguments.options);
}

void pipelineCheckCommand(Context& context, const PipelineArguments& arguments) {
  if (arguments.file.empty()) {
    return context.mistake(
        "nothing to check: give a pipeline file (dure pipeline check FILE.yaml)");
  }
  const auto loaded = loadOrExplain(context, arguments);
  if (!loaded) return;
  const pipeline::Pipeline& found = loaded->pipeline;
  const std::size_t parts = partsOf(found).size();
  if (arguments.json) {
    context.out << nlohmann::json{{"ok", true}, {"problems", nlohmann::json::array()}}.dump(2)
                << "\n";
    return;
  }
  context.out << fmt::format("{}: {} step{}, {} part{}\n\n", found.name, found.steps.size(),
                             found.steps.size() == 1 ? "" : "s", parts, parts == 1 ? "" : "s");
  const std::vector<std::size_t> order = pipeline::inOrder(found);
  const std::vector<std::string> graph = pipeline::drawGraph(found);
  std::vector<std::vector<std::string>> rows;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const pipeline::Step& step = found.steps[order[i]];
    const std::string each = step.fans_out ? fmt::format(" ×{}", step.items.size()) : "";
    rows.push_back({graph[i] + step.name + each, kindName(step.kind)});
  }
  context.out << formatTable(rows);
}

// What lies on the shared directory: sizes, times and names, as `ls -lR` of the volume shows them.
void listVolume(Context& context, const PipelineArguments& arguments) {
  auto store = openStore(context);
  if (!store) return;
  const auto id = store->find(arguments.name);
  if (!id) return context.fail(id.error());
  const runs::RunPaths paths = store->paths(*id);
  if (!fileExists(paths.pipeline())) {
    return context.mistake(id->text() + " is no pipeline, and has no shared directory");
  }
  const auto elsewhere = ClusterPipeline::open(*store, *id);
  if (!elsewhere) return context.fail(elsewhere.error());
  const auto files =
      *elsewhere ? (*elsewhere)->volume().list() : pipeline::OutputTree(paths.directory).list();
  if (!files) return context.fail(files.error());
  const std::string directory = *elsewhere ? (*elsewhere)->place().description() : paths.volume();
  nlohmann::json list = nlohmann::json::array();
  std::vector<std::vector<std::string>> rows;
  for (const pipeline::OutputTree::File& file : *files) {
    const std::string changed = formatTime(std::chrono::system_clock::from_time_t(file.changed));
    list.push_back({{"path", toValidUtf8(file.name)}, {"bytes", file.bytes}, {"changed", changed}});
    rows.push_back({std::to_string(file.bytes), changed, file.name});
  }
  if (arguments.json) {
    context.out << nlohmann::json{{"directory", directory}, {"files", list}}.dump(2) << "\n";
    return;
  }
  context.out << directory << "\n" << formatTable(rows);
}

}  // namespace

void addPipeline(CLI::App& app, Context& context) {
  CLI::App* command =
      app.add_subcommand("pipeline", "Run steps that depend on each other: run, check, ls-volume");
  command->require_subcommand(1);
  command->footer(
      "  dure pipeline run examples/imdb/pipeline.yaml --set workers=5\n"
      "  dure pipeline run examples/imdb/pipeline.yaml --on kubernetes\n"
      "ps, describe, logs, stop, rm and fetch take a pipeline as they take a run.");

  auto run = std::make_shared<PipelineArguments>();
  CLI::App* run_command = command->add_subcommand("run", "Run a pipeline to its end");
  run->addFileTo(*run_command);
  run_command->add_flag("--fresh", run->options.fresh,
                        "Do every step anew, also what an earlier run has done with the same "
                        "inputs");
  run_command
      ->add_option("--resume", run->resume, "Go on with a run from its first unfinished step")
      ->option_text("RUN");
  run->options.where.addTo(*run_command);
  run_command->add_flag("-d,--detach", run->options.detach, "Return as soon as the run has begun");
  run_command
      ->add_option(
          "--parallel", run->options.parallel,
          "How many parts of steps run at once, if not as many as there are processors for")
      ->option_text("N")
      ->check(CLI::Range(1, 100'000));
  run_command->callback([&context, run] { pipelineRunCommand(context, *run); });

  auto check = std::make_shared<PipelineArguments>();
  CLI::App* check_command = command->add_subcommand(
      "check", "Say everything that is wrong with a pipeline, or draw it; nothing starts");
  check->addFileTo(*check_command);
  check_command->add_flag("--json", check->json, "For programs");
  check_command->callback([&context, check] { pipelineCheckCommand(context, *check); });

  auto list = std::make_shared<PipelineArguments>();
  CLI::App* list_command = command->add_subcommand(
      "ls-volume", "List what lies in the directory that the steps of a pipeline share");
  list_command->add_option(kRunArgument, list->name, "NAME for its newest run, or NAME.NUMBER")
      ->option_text("RUN")
      ->required();
  list_command->add_flag("--json", list->json, "For programs");
  list_command->callback([&context, list] { listVolume(context, *list); });
}

}  // namespace dure::cli
