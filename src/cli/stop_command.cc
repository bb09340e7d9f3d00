#include <memory>
#include <ostream>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "backend/kubernetes/record.h"
#include "cli/command.h"
#include "cli/kubernetes_runs.h"
#include "cli/place_arguments.h"
#include "cli/stop_run.h"
#include "runs/run_reader.h"

namespace dure::cli {
namespace {

struct StopArguments {
  std::vector<std::string> names;
  bool now = false;
  bool json = false;
  PlaceArguments place;
};

struct Stopped {
  std::string id;
  bool was_running = false;
  std::string status;
};

Result<Stopped> stopHere(runs::RunStore& store, const std::string& name, bool now) {
  const auto id = store.find(name);
  if (!id) return id.error();
  const bool was_running = store.coordinator(*id).has_value();
  if (auto stopped = stopRun(store, *id, now); !stopped) return std::move(stopped).error();
  return Stopped{id->text(), was_running, runs::readRun(store, *id).status};
}

Result<Stopped> stopThere(kube::KubeClient& client, const std::string& name, bool now) {
  const auto run = kubernetes::findRun(client, client.access().name_space, name);
  if (!run) return run.error();
  const auto before = readKubeRun(client, *run);
  if (!before) return before.error();
  const bool was_running = before->in_charge && !before->state.outcome;
  if (was_running) {
    if (auto stopped = stopKubeRun(client, *run, now); !stopped) return std::move(stopped).error();
  }
  const auto after = readKubeRun(client, *run);
  if (!after) return after.error();
  return Stopped{run->text(), was_running, after->status};
}

void stopCommand(Context& context, const StopArguments& arguments) {
  const auto stop = arguments.place.choose<Stopped>(
      context,
      [&](runs::RunStore& store, const std::string& name) {
        return stopHere(store, name, arguments.now);
      },
      [&](kube::KubeClient& client, const std::string& name) {
        return stopThere(client, name, arguments.now);
      });
  if (!stop) return;
  nlohmann::json report = nlohmann::json::array();
  for (const std::string& name : arguments.names) {
    const auto stopped = stop(name);
    if (!stopped) {
      context.fail(stopped.error());
      continue;
    }
    report.push_back(
        {{"id", stopped->id}, {"was_running", stopped->was_running}, {"status", stopped->status}});
    if (arguments.json) continue;
    context.out << stopped->id << (stopped->was_running ? " " : " is not running: ")
                << stopped->status << "\n";
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
  arguments->place.addTo(*command);
  command->callback([&context, arguments] { stopCommand(context, *arguments); });
}

}  // namespace dure::cli
