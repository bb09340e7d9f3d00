#include <memory>
#include <ostream>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <fmt/core.h>

#include "base/text.h"
#include "cli/command.h"
#include "cli/kubernetes_runs.h"
#include "cli/place_arguments.h"
#include "cli/table.h"
#include "runs/run_reader.h"

namespace dure::cli {
namespace {

// Fails the command if they cannot be read.
std::optional<std::vector<runs::RunView>> findRuns(Context& context, const PlaceArguments& place) {
  if (place.onKubernetes()) {
    const auto client = place.connect(context);
    if (!client) return std::nullopt;
    auto runs = readKubeRuns(*client, client->access().name_space);
    if (runs) return *std::move(runs);
    context.fail(runs.error());
    return std::nullopt;
  }
  const auto store = openStore(context);
  if (!store) return std::nullopt;
  return runs::readRuns(*store);
}

void psCommand(Context& context, const PlaceArguments& place, bool as_json) {
  const auto found = findRuns(context, place);
  if (!found) return;
  const std::vector<runs::RunView>& runs = *found;
  if (as_json) {
    nlohmann::json list = nlohmann::json::array();
    for (const runs::RunView& run : runs) list.push_back(runs::toJson(run));
    context.out << list.dump(2) << "\n";
    return;
  }
  if (runs.empty()) {
    context.out << "no runs yet; start one with `dure run JOB.yaml`\n";
    return;
  }
  std::vector<std::vector<std::string>> rows{
      {"RUN", "STATUS", "WORKERS", "GENERATION", "STEP", "AGE", "WHY"}};
  for (const runs::RunView& run : runs) {
    const bool dated = run.state.created != TimePoint{};
    const auto age = std::chrono::duration_cast<Duration>(SystemClock().now() - run.state.created);
    std::string why = run.state.reason;
    if (run.status == "lost") {
      why = place.onKubernetes() ? "its manager is gone"
                                 : "its dure process died: dure run --resume " + run.id.text();
    }
    rows.push_back({run.id.text(), run.status, std::to_string(run.state.workers),
                    std::to_string(run.state.generation), run.step ? std::to_string(*run.step) : "",
                    dated ? describeDuration(age) : "-", why});
  }
  context.out << formatTable(rows);
}

}  // namespace

void addPs(CLI::App& app, Context& context) {
  auto as_json = std::make_shared<bool>(false);
  auto place = std::make_shared<PlaceArguments>();
  CLI::App* command = app.add_subcommand("ps", "List the runs, the newest last");
  command->add_flag("--json", *as_json, "For programs");
  place->addTo(*command);
  command->callback([&context, place, as_json] { psCommand(context, *place, *as_json); });
}

}  // namespace dure::cli
