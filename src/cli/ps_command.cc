#include <memory>
#include <ostream>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <fmt/core.h>

#include "base/text.h"
#include "cli/command.h"
#include "cli/table.h"
#include "runs/run_reader.h"

namespace dure::cli {
namespace {

void psCommand(Context& context, bool json) {
  const auto store = openStore(context);
  if (!store) return;
  const std::vector<RunView> runs = readRuns(*store);
  if (json) {
    nlohmann::json list = nlohmann::json::array();
    for (const RunView& run : runs) list.push_back(toJson(run));
    context.out << list.dump(2) << "\n";
    return;
  }
  if (runs.empty()) {
    context.out << "no runs yet; start one with `dure run JOB.yaml`\n";
    return;
  }
  std::vector<std::vector<std::string>> rows{
      {"RUN", "STATUS", "WORKERS", "GENERATION", "STEP", "AGE", "WHY"}};
  for (const RunView& run : runs) {
    const bool dated = run.state.created != TimePoint{};
    const auto age = std::chrono::duration_cast<Duration>(SystemClock().now() - run.state.created);
    std::string why = run.state.reason;
    if (run.status == "lost") why = "its dure process died: dure run --resume " + run.id.text();
    rows.push_back({run.id.text(), run.status, std::to_string(run.state.workers),
                    std::to_string(run.state.generation), run.step ? std::to_string(*run.step) : "",
                    dated ? describeDuration(age) : "-", why});
  }
  context.out << formatTable(rows);
}

}  // namespace

void addPs(CLI::App& app, Context& context) {
  auto json = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("ps", "List the runs, the newest last");
  command->add_flag("--json", *json, "For programs");
  command->callback([&context, json] { psCommand(context, *json); });
}

}  // namespace dure::cli
