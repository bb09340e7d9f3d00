#include <memory>
#include <ostream>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <fmt/core.h>

#include "base/text.h"
#include "cli/commands.h"
#include "cli/table.h"
#include "cli/where_arguments.h"
#include "pipeline/record_view.h"

namespace dure::cli {
namespace {

// Pipelines are runs of this machine.
std::optional<pipeline::RecordView> pipelineOf(Context& context, const runs::RunView& run) {
  if (run.kind != runs::RunKind::kPipeline) return std::nullopt;
  const auto store = openStore(context);
  if (!store) return std::nullopt;
  return pipeline::readRecord(*store, run.id, run.in_charge);
}

void psCommand(Context& context, const WhereArguments& where, bool as_json) {
  const auto runs = where.openRuns(context);
  if (!runs) return;
  const auto found = runs->list();
  if (!found) return context.fail(found.error());
  if (as_json) {
    nlohmann::json list = nlohmann::json::array();
    for (const runs::RunView& run : *found) {
      list.push_back(runs::toJson(run));
      if (const auto view = pipelineOf(context, run)) {
        list.back()["steps"] = pipeline::stepsToJson(*view);
      }
    }
    context.out << list.dump(2) << "\n";
    return;
  }
  if (found->empty()) {
    context.out << "no runs yet; start one with `dure run JOB.yaml`\n";
    return;
  }
  std::vector<std::vector<std::string>> rows{
      {"RUN", "STATUS", "WORKERS", "GENERATION", "STEP", "AGE", "WHY"}};
  for (const runs::RunView& run : *found) {
    const bool dated = run.state.created != TimePoint{};
    const auto age = std::chrono::duration_cast<Duration>(SystemClock().now() - run.state.created);
    const std::string& why = run.advice.empty() ? run.state.reason : run.advice;
    std::string workers = std::to_string(run.state.workers);
    std::string generation = std::to_string(run.state.generation);
    std::string step = run.step ? std::to_string(*run.step) : "";
    if (const auto view = pipelineOf(context, run)) {
      workers = generation = "-";
      step = fmt::format("{}/{}", view->done(), view->parts.size());
    }
    rows.push_back({run.id.text(), runs::statusName(run.status), workers, generation, step,
                    dated ? describeDuration(age) : "-", why});
  }
  context.out << formatTable(rows);
}

}  // namespace

void addPs(CLI::App& app, Context& context) {
  auto as_json = std::make_shared<bool>(false);
  auto where = std::make_shared<WhereArguments>();
  CLI::App* command = app.add_subcommand("ps", "List the runs, the newest last");
  command->add_flag("--json", *as_json, "For programs");
  where->addTo(*command);
  command->callback([&context, where, as_json] { psCommand(context, *where, *as_json); });
}

}  // namespace dure::cli
