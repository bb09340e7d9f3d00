#include <signal.h>

#include <memory>
#include <ostream>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "cli/cluster_pipeline.h"
#include "cli/commands.h"
#include "cli/pipeline_report.h"
#include "cli/where_arguments.h"
#include "protocol/rank_label.h"

namespace dure::cli {
namespace {

struct LogsArguments {
  std::string name;
  bool follow = false;
  bool json = false;
  std::optional<int> rank;
  std::optional<int> generation;
  std::string step;
  WhereArguments where;
};

void print(std::ostream& out, const LogsArguments& arguments, int generation, int rank,
           std::string_view lines) {
  // One rank's log is printed as it is: it may be fed to another program.
  if (arguments.rank && !arguments.json) {
    out << lines;
    return;
  }
  while (!lines.empty()) {
    const std::size_t end = lines.find('\n');
    const std::string_view line = lines.substr(0, end);
    if (arguments.json) {
      out << nlohmann::json{{"generation", generation}, {"rank", rank}, {"line", toValidUtf8(line)}}
                 .dump()
          << "\n";
    } else {
      out << protocol::rankLabel(rank) << line << "\n";
    }
    lines.remove_prefix(std::min(end + 1, lines.size()));
  }
}

// Each line with the part that printed it, unless one part was asked for.
void printOfPart(std::ostream& out, const LogsArguments& arguments, const std::string& part,
                 int rank, std::string_view lines) {
  while (!lines.empty()) {
    const std::size_t end = std::min(lines.find('\n'), lines.size());
    const std::string_view line = lines.substr(0, end);
    if (arguments.json) {
      out << nlohmann::json{{"part", part}, {"rank", rank}, {"line", toValidUtf8(line)}}.dump();
    } else if (part == arguments.step) {
      out << line;
    } else {
      out << part << " │ " << line;
    }
    out << "\n";
    lines.remove_prefix(std::min(end + 1, lines.size()));
  }
  out.flush();
}

// The services of a pipeline in a cluster: what they print is not in the record.
Status printServiceLogs(Context& context, runs::RunStore& store, const runs::RunId& id,
                        const LogsArguments& arguments) {
  const auto pipeline = ClusterPipeline::open(store, id);
  if (!pipeline) return pipeline.error();
  if (!*pipeline) return {};
  for (const std::string& part : (*pipeline)->services(arguments.step)) {
    // A service never ends: it is followed only if it is asked for.
    const bool follow = arguments.follow && !arguments.step.empty();
    auto read = (*pipeline)->serviceLogs(part, follow, [&](std::string_view lines) {
      printOfPart(context.out, arguments, part, 0, lines);
    });
    if (!read) return read;
  }
  return {};
}

void printPipelineLogs(Context& context, runs::RunStore& store, const runs::RunId& id,
                       const LogsArguments& arguments) {
  const auto print = [&](const std::string& part, int rank, std::string_view lines) {
    if (arguments.rank && *arguments.rank != rank) return;
    printOfPart(context.out, arguments, part, rank, lines);
  };
  auto read = pipelineLogs(store, id, {.step = arguments.step, .follow = arguments.follow}, print);
  if (read) read = printServiceLogs(context, store, id, arguments);
  if (!read) context.fail(read.error());
}

void logsCommand(Context& context, const LogsArguments& arguments) {
  const auto runs = arguments.where.openRuns(context);
  if (!runs) return;
  const auto id = runs->find(arguments.name);
  if (!id) return context.fail(id.error());
  signal(SIGPIPE, SIG_DFL);
  auto store = arguments.where.onKubernetes() ? std::nullopt : openStore(context);
  if (store && fileExists(store->paths(*id).pipeline())) {
    return printPipelineLogs(context, *store, *id, arguments);
  }
  if (!arguments.step.empty()) {
    return context.mistake("--step is for pipelines; " + id->text() + " is a job");
  }
  const auto read = runs->logs(
      *id, {.rank = arguments.rank, .generation = arguments.generation, .follow = arguments.follow},
      [&](int generation, int rank, std::string_view lines) {
        print(context.out, arguments, generation, rank, lines);
        context.out.flush();
      },
      Wait());
  if (!read) context.fail(read.error());
}

}  // namespace

void addLogs(CLI::App& app, Context& context) {
  auto arguments = std::make_shared<LogsArguments>();
  CLI::App* command = app.add_subcommand("logs", "Print what the ranks of a run printed");
  command->footer("Without --generation or -f: of the newest generation.");
  command->add_option(kRunArgument, arguments->name, "NAME for its newest run, or NAME.NUMBER")
      ->option_text("RUN")
      ->required();
  command->add_flag("-f,--follow", arguments->follow, "Go on until the run ends");
  command->add_option("--rank", arguments->rank, "Of this rank only, and without the rank in front")
      ->option_text("N");
  command->add_option("--generation", arguments->generation, "Of this generation")
      ->option_text("N");
  command->add_option("--step", arguments->step, "Of this step of a pipeline, or part of one")
      ->option_text("STEP");
  command->add_flag("--json", arguments->json, "One JSON object a line");
  arguments->where.addTo(*command);
  command->callback([&context, arguments] { logsCommand(context, *arguments); });
}

}  // namespace dure::cli
