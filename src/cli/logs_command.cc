#include <signal.h>

#include <memory>
#include <ostream>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "cli/commands.h"
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

void logsCommand(Context& context, const LogsArguments& arguments) {
  const auto runs = arguments.where.openRuns(context);
  if (!runs) return;
  const auto id = runs->find(arguments.name);
  if (!id) return context.fail(id.error());
  signal(SIGPIPE, SIG_DFL);
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
  command->add_flag("--json", arguments->json, "One JSON object a line");
  arguments->where.addTo(*command);
  command->callback([&context, arguments] { logsCommand(context, *arguments); });
}

}  // namespace dure::cli
