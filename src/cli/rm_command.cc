#include <memory>
#include <ostream>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "backend/kubernetes/record.h"
#include "cli/command.h"
#include "cli/kubernetes_runs.h"
#include "cli/place_arguments.h"
#include "cli/stop_run.h"

namespace dure::cli {
namespace {

struct RmArguments {
  std::vector<std::string> names;
  bool force = false;
  bool json = false;
  PlaceArguments place;
};

Error stillRunning(const std::string& run) {
  return Error(Code::kInvalid, run + " is running; stop it first, or use --force");
}

// The run's name, when it is gone.
Result<std::string> removeHere(runs::RunStore& store, const std::string& name, bool force) {
  const auto id = store.find(name);
  if (!id) return id.error();
  if (store.coordinator(*id) && !force) return stillRunning(id->text());
  if (auto stopped = stopRun(store, *id, false); !stopped && (!force || store.coordinator(*id))) {
    return std::move(stopped).error();
  }
  if (auto gone = store.remove(*id); !gone) return std::move(gone).error();
  return id->text();
}

Result<std::string> removeThere(kube::KubeClient& client, const std::string& name, bool force) {
  const auto run = kubernetes::findRun(client, client.access().name_space, name);
  if (!run) return run.error();
  const auto view = readKubeRun(client, *run);
  if (!view) return view.error();
  if (view->in_charge && !view->state.outcome) {
    if (!force) return stillRunning(run->text());
    // One that has not begun has nothing to stop.
    if (!view->entries.empty()) {
      if (auto stopped = stopKubeRun(client, *run, false); !stopped) {
        return std::move(stopped).error();
      }
    }
  }
  if (auto gone = removeKubeRun(client, *run); !gone) return std::move(gone).error();
  return run->text();
}

void rmCommand(Context& context, const RmArguments& arguments) {
  const auto remove = arguments.place.choose<std::string>(
      context,
      [&](runs::RunStore& store, const std::string& name) {
        return removeHere(store, name, arguments.force);
      },
      [&](kube::KubeClient& client, const std::string& name) {
        return removeThere(client, name, arguments.force);
      });
  if (!remove) return;
  nlohmann::json removed = nlohmann::json::array();
  for (const std::string& name : arguments.names) {
    const auto run = remove(name);
    if (!run) {
      context.fail(run.error());
      continue;
    }
    removed.push_back(*run);
    if (!arguments.json) context.out << "removed " << *run << "\n";
  }
  if (arguments.json) context.out << nlohmann::json{{"removed", removed}}.dump(2) << "\n";
}

}  // namespace

void addRm(CLI::App& app, Context& context) {
  auto arguments = std::make_shared<RmArguments>();
  CLI::App* command = app.add_subcommand("rm", "Remove the records of runs: events, metrics, logs");
  command->footer("What a program wrote itself, models and checkpoints, stays.");
  command->add_option("run", arguments->names, "NAME for its newest run, or NAME.NUMBER")
      ->option_text("RUN…")
      ->required();
  command->add_flag("-f,--force", arguments->force, "Stop those that run");
  command->add_flag("--json", arguments->json, "For programs");
  arguments->place.addTo(*command);
  command->callback([&context, arguments] { rmCommand(context, *arguments); });
}

}  // namespace dure::cli
