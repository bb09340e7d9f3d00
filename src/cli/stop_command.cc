#include <memory>
#include <ostream>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/stop_run.h"
#include "runs/run_reader.h"

namespace dure::cli {
namespace {

struct StopArguments {
  std::vector<std::string> names;
  bool now = false;
  bool json = false;
};

void stopCommand(Context& context, const StopArguments& arguments) {
  const auto store = openStore(context);
  if (!store) return;
  nlohmann::json report = nlohmann::json::array();
  for (const std::string& name : arguments.names) {
    const auto id = store->find(name);
    if (!id) {
      context.fail(id.error());
      continue;
    }
    const bool was_running = store->coordinator(*id).has_value();
    if (auto stopped = stopRun(*store, *id, arguments.now); !stopped) {
      context.fail(stopped.error());
      continue;
    }
    const std::string status = readRun(*store, *id).status;
    report.push_back({{"id", id->text()}, {"was_running", was_running}, {"status", status}});
    if (arguments.json) continue;
    context.out << id->text() << (was_running ? " " : " is not running: ") << status << "\n";
  }
  if (arguments.json) context.out << report.dump(2) << "\n";
}

}  // namespace

void addStop(CLI::App& app, Context& context) {
  auto arguments = std::make_shared<StopArguments>();
  CLI::App* command = app.add_subcommand("stop", "Stop runs, and return when they are gone");
  command->add_option("run", arguments->names, "NAME for its newest run, or NAME.NUMBER")
      ->option_text("RUN…")
      ->required();
  command->add_flag("--now", arguments->now, "Without giving programs time to end");
  command->add_flag("--json", arguments->json, "For programs");
  command->callback([&context, arguments] { stopCommand(context, *arguments); });
}

}  // namespace dure::cli
