#include <signal.h>

#include <memory>
#include <ostream>
#include <thread>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <fmt/core.h>

#include "base/text.h"
#include "cli/command.h"
#include "runs/log_follower.h"
#include "runs/run_reader.h"

namespace dure::cli {
namespace {

constexpr auto kPoll = std::chrono::milliseconds(100);

struct LogsArguments {
  std::string name;
  bool follow = false;
  bool json = false;
  std::optional<int> rank;
  std::optional<int> generation;
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
      out << "[" << rank << "] " << line << "\n";
    }
    lines.remove_prefix(std::min(end + 1, lines.size()));
  }
}

void logsCommand(Context& context, const LogsArguments& arguments) {
  const auto store = openStore(context);
  if (!store) return;
  const auto id = store->find(arguments.name);
  if (!id) return context.fail(id.error());
  const RunPaths paths = store->paths(*id);
  auto generation = arguments.generation;
  if (!generation && !arguments.follow) generation = LogFollower::newestGeneration(paths);
  LogFollower follower(paths, {.rank = arguments.rank, .generation = generation});
  const auto show = [&](int g, int rank, std::string_view lines) {
    print(context.out, arguments, g, rank, lines);
  };
  signal(SIGPIPE, SIG_DFL);
  while (arguments.follow) {
    const bool over = !store->coordinator(*id);
    follower.poll(false, show);
    context.out.flush();
    if (over) break;
    std::this_thread::sleep_for(kPoll);
  }
  follower.poll(true, show);
}

}  // namespace

void addLogs(CLI::App& app, Context& context) {
  auto arguments = std::make_shared<LogsArguments>();
  CLI::App* command = app.add_subcommand("logs", "Print what the ranks of a run printed");
  command->footer("Without --generation or -f: of the newest generation.");
  command->add_option("run", arguments->name, "NAME for its newest run, or NAME.NUMBER")
      ->option_text("RUN")
      ->required();
  command->add_flag("-f,--follow", arguments->follow, "Go on until the run ends");
  command->add_option("--rank", arguments->rank, "Of this rank only, and without the rank in front")
      ->option_text("N");
  command->add_option("--generation", arguments->generation, "Of this generation")
      ->option_text("N");
  command->add_flag("--json", arguments->json, "One JSON object a line");
  command->callback([&context, arguments] { logsCommand(context, *arguments); });
}

}  // namespace dure::cli
