#include <algorithm>
#include <memory>
#include <ostream>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <fmt/core.h>

#include "base/process.h"
#include "base/text.h"
#include "cli/chart.h"
#include "cli/commands.h"
#include "cli/pipeline_report.h"
#include "cli/table.h"
#include "cli/where_arguments.h"
#include "gang/roster.h"
#include "pipeline/record_view.h"

namespace dure::cli {
namespace {

std::string rankState(const gang::Entry& entry, const runs::RunView& run) {
  if (entry.kind == gang::EntryKind::kExited) {
    return describeExit({.code = entry.code.value_or(0), .signal = entry.signal});
  }
  if (run.state.outcome) return "stopped";
  if (!run.in_charge) return "gone";
  return run.state.running ? "running" : "joined";
}

// "1 process each", or as they were split: "5 and 1 processes".
std::string describeProcesses(const spec::Job& job, const gang::RunState& state) {
  std::vector<int> counts;
  for (const gang::Task& task :
       gang::makeRoster(job, gang::Layout{.workers = state.workers, .gpus = state.gpus}).tasks) {
    if (task.role == gang::Role::kWorker) counts.push_back(task.slots);
  }
  std::sort(counts.rbegin(), counts.rend());
  if (counts.empty() || counts.front() == counts.back()) {
    const int each = counts.empty() ? spec::processesPerTask(job) : counts.front();
    return fmt::format("{} process{} each", each, each == 1 ? "" : "es");
  }
  std::vector<std::string> words;
  for (const int count : counts) words.push_back(std::to_string(count));
  const std::string last = std::move(words.back());
  words.pop_back();
  return fmt::format("{} and {} processes", join(words, ", "), last);
}

std::string clockTime(TimePoint time) { return formatTime(time).substr(11, 8); }

void printRun(std::ostream& out, const runs::RunView& run) {
  std::vector<std::vector<std::string>> facts{{"run", run.id.text()},
                                              {"status", runs::statusName(run.status)}};
  if (!run.state.reason.empty()) facts.push_back({"why", run.state.reason});
  if (!run.advice.empty()) facts.push_back({"why", run.advice});
  if (run.job) {
    std::vector<std::string> words;
    for (const std::string& word : run.job->program.command) words.push_back(shellQuote(word));
    facts.push_back(
        {"job", fmt::format("{}, {} worker{}, {}", spec::strategyName(run.job->strategy),
                            run.state.workers, run.state.workers == 1 ? "" : "s",
                            describeProcesses(*run.job, run.state))});
    facts.push_back({"program", join(words, " ")});
    facts.push_back(
        {"failures", fmt::format("{} (limit {})", run.state.failures, run.job->restarts.limit)});
  }
  facts.push_back({"generation", std::to_string(run.state.generation)});
  if (run.step) facts.push_back({"step", std::to_string(*run.step)});
  facts.push_back({"created", formatTime(run.state.created)});
  if (run.coordinator) facts.push_back({"process", std::to_string(*run.coordinator)});
  facts.push_back({"record", run.record});
  out << formatTable(facts);

  const bool cluster = std::any_of(run.state.tasks.begin(), run.state.tasks.end(),
                                   [](const gang::Entry& entry) { return !entry.node.empty(); });
  std::vector<std::vector<std::string>> ranks{
      {"RANK", "TASK", "STATE", cluster ? "NODE" : "HOST", "AGENT"}};
  for (const gang::Entry& entry : run.state.tasks) {
    ranks.push_back({entry.rank ? std::to_string(*entry.rank) : "-", entry.task,
                     rankState(entry, run), cluster ? entry.node : entry.host,
                     std::to_string(entry.pid)});
  }
  if (ranks.size() > 1) out << "\n" << formatTable(ranks);

  const std::string chart = drawCurve(run.losses, 64, 8);
  if (!chart.empty()) out << "\nloss\n" << chart;

  out << "\n";
  for (const gang::Entry& entry : run.entries) {
    out << clockTime(entry.time) << "  " << gang::describeEntry(entry) << "\n";
  }
}

void describeCommand(Context& context, const WhereArguments& where, const std::string& name,
                     bool as_json) {
  const auto runs = where.openRuns(context);
  if (!runs) return;
  const auto id = runs->find(name);
  if (!id) return context.fail(id.error());
  auto found = runs->read(*id);
  if (!found) return context.fail(found.error());
  runs::RunView& run = *found;
  std::sort(run.state.tasks.begin(), run.state.tasks.end(),
            [](const gang::Entry& a, const gang::Entry& b) { return a.rank < b.rank; });
  const bool pipeline = run.kind == runs::RunKind::kPipeline;
  const auto store = pipeline ? openStore(context) : std::nullopt;
  if (pipeline && !store) return;
  if (!as_json && pipeline) return printPipeline(context.out, *store, run);
  if (!as_json) return printRun(context.out, run);
  nlohmann::json description = runs::toJson(run);
  if (pipeline) {
    description["steps"] =
        pipeline::stepsToJson(pipeline::readRecord(*store, run.id, run.in_charge));
    description["outputs"] = outputsOf(run.paths);
  }
  description["events"] = nlohmann::json::array();
  for (const gang::Entry& entry : run.entries) description["events"].push_back(gang::toJson(entry));
  description["ranks"] = nlohmann::json::array();
  for (const gang::Entry& entry : run.state.tasks) {
    nlohmann::json rank = {{"task", entry.task},
                           {"state", rankState(entry, run)},
                           {"host", entry.host},
                           {"agent", entry.pid}};
    if (!entry.node.empty()) rank["node"] = entry.node;
    if (entry.rank) rank["rank"] = *entry.rank;
    description["ranks"].push_back(rank);
  }
  context.out << description.dump(2) << "\n";
}

}  // namespace

void addDescribe(CLI::App& app, Context& context) {
  struct Arguments {
    std::string name;
    bool json = false;
    WhereArguments where;
  };
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command =
      app.add_subcommand("describe", "Tell all about a run: state, reason, ranks or steps, events");
  command->add_option(kRunArgument, arguments->name, "NAME for its newest run, or NAME.NUMBER")
      ->option_text("RUN")
      ->required();
  command->add_flag("--json", arguments->json, "For programs");
  arguments->where.addTo(*command);
  command->callback([&context, arguments] {
    describeCommand(context, arguments->where, arguments->name, arguments->json);
  });
}

}  // namespace dure::cli
