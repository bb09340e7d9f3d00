#include <algorithm>
#include <memory>
#include <ostream>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <fmt/core.h>

#include "base/process.h"
#include "base/text.h"
#include "cli/chart.h"
#include "cli/command.h"
#include "cli/table.h"
#include "runs/run_reader.h"

namespace dure::cli {
namespace {

std::string rankState(const Entry& entry, const RunView& run) {
  if (entry.kind == EntryKind::kExited) {
    return describeExit({.code = entry.code.value_or(0), .signal = entry.signal});
  }
  if (run.state.outcome) return "stopped";
  if (!run.coordinator) return "gone";
  return run.state.running ? "running" : "joined";
}

std::string clockTime(TimePoint time) { return formatTime(time).substr(11, 8); }

void printRun(std::ostream& out, const RunView& run) {
  std::vector<std::vector<std::string>> facts{{"run", run.id.text()}, {"status", run.status}};
  if (!run.state.reason.empty()) facts.push_back({"why", run.state.reason});
  if (run.status == "lost") {
    facts.push_back(
        {"why", "its dure process died; go on with: dure run --resume " + run.id.text()});
  }
  if (run.job) {
    std::vector<std::string> words;
    for (const std::string& word : run.job->program.command) words.push_back(shellQuote(word));
    facts.push_back(
        {"job",
         fmt::format("{}, {} worker{}, {} process{} each", strategyName(run.job->strategy),
                     run.state.workers, run.state.workers == 1 ? "" : "s",
                     processesPerTask(*run.job), processesPerTask(*run.job) == 1 ? "" : "es")});
    facts.push_back({"program", join(words, " ")});
    facts.push_back(
        {"failures", fmt::format("{} (limit {})", run.state.failures, run.job->restarts.limit)});
  }
  facts.push_back({"generation", std::to_string(run.state.generation)});
  if (run.step) facts.push_back({"step", std::to_string(*run.step)});
  facts.push_back({"created", formatTime(run.state.created)});
  if (run.coordinator) facts.push_back({"process", std::to_string(*run.coordinator)});
  facts.push_back({"record", run.paths.directory});
  out << formatTable(facts);

  std::vector<std::vector<std::string>> ranks{{"RANK", "TASK", "STATE", "HOST", "AGENT"}};
  for (const Entry& entry : run.state.tasks) {
    ranks.push_back({entry.rank ? std::to_string(*entry.rank) : "-", entry.task,
                     rankState(entry, run), entry.host, std::to_string(entry.pid)});
  }
  if (ranks.size() > 1) out << "\n" << formatTable(ranks);

  const std::string chart = drawCurve(readLosses(run.paths.metrics()), 64, 8);
  if (!chart.empty()) out << "\nloss\n" << chart;

  out << "\n";
  for (const Entry& entry : run.entries) {
    out << clockTime(entry.time) << "  " << describeEntry(entry) << "\n";
  }
}

void describeCommand(Context& context, const std::string& name, bool json) {
  const auto store = openStore(context);
  if (!store) return;
  const auto id = store->find(name);
  if (!id) return context.fail(id.error());
  RunView run = readRun(*store, *id);
  std::sort(run.state.tasks.begin(), run.state.tasks.end(),
            [](const Entry& a, const Entry& b) { return a.rank < b.rank; });
  if (!json) return printRun(context.out, run);
  nlohmann::json description = toJson(run);
  description["events"] = nlohmann::json::array();
  for (const Entry& entry : run.entries) description["events"].push_back(toJson(entry));
  description["ranks"] = nlohmann::json::array();
  for (const Entry& entry : run.state.tasks) {
    nlohmann::json rank = {{"task", entry.task},
                           {"state", rankState(entry, run)},
                           {"host", entry.host},
                           {"agent", entry.pid}};
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
  };
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command =
      app.add_subcommand("describe", "Tell all about a run: state, reason, ranks, events");
  command->add_option("run", arguments->name, "NAME for its newest run, or NAME.NUMBER")
      ->option_text("RUN")
      ->required();
  command->add_flag("--json", arguments->json, "For programs");
  command->callback(
      [&context, arguments] { describeCommand(context, arguments->name, arguments->json); });
}

}  // namespace dure::cli
