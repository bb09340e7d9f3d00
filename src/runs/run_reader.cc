#include "runs/run_reader.h"

#include <algorithm>
#include <limits>
#include <map>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "protocol/report.h"
#include "spec/load.h"

namespace dure::runs {
namespace {

constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();
// Enough for the last report of every rank.
constexpr std::ptrdiff_t kLastReports = 2'000;

RunStatus statusOf(gang::Outcome outcome) {
  switch (outcome) {
    case gang::Outcome::kSucceeded:
      return RunStatus::kSucceeded;
    case gang::Outcome::kFailed:
      return RunStatus::kFailed;
    case gang::Outcome::kStopped:
      return RunStatus::kStopped;
    case gang::Outcome::kInfrastructureFailed:
      break;
  }
  return RunStatus::kInfrastructureFailed;
}

RunStatus statusOf(const RunView& run) {
  if (run.state.outcome) return statusOf(*run.state.outcome);
  if (!run.in_charge) return RunStatus::kLost;
  for (auto entry = run.entries.rbegin(); entry != run.entries.rend(); ++entry) {
    switch (entry->kind) {
      case gang::EntryKind::kRunning:
        return RunStatus::kRunning;
      case gang::EntryKind::kPending:
        return RunStatus::kPending;
      case gang::EntryKind::kStopping:
        return RunStatus::kStopping;
      case gang::EntryKind::kEnded:
      case gang::EntryKind::kWaiting:
        return RunStatus::kWaiting;
      case gang::EntryKind::kCreated:
      case gang::EntryKind::kResumed:
      case gang::EntryKind::kStarting:
        return RunStatus::kStarting;
      default:
        continue;
    }
  }
  return RunStatus::kStarting;
}

}  // namespace

std::string kindName(RunKind kind) { return kind == RunKind::kPipeline ? "pipeline" : "job"; }

std::string statusName(RunStatus status) {
  switch (status) {
    case RunStatus::kPending:
      return "pending";
    case RunStatus::kStarting:
      return "starting";
    case RunStatus::kRunning:
      return "running";
    case RunStatus::kStopping:
      return "stopping";
    case RunStatus::kWaiting:
      return "waiting";
    case RunStatus::kSucceeded:
      return gang::outcomeName(gang::Outcome::kSucceeded);
    case RunStatus::kFailed:
      return gang::outcomeName(gang::Outcome::kFailed);
    case RunStatus::kStopped:
      return gang::outcomeName(gang::Outcome::kStopped);
    case RunStatus::kInfrastructureFailed:
      return gang::outcomeName(gang::Outcome::kInfrastructureFailed);
    case RunStatus::kLost:
      break;
  }
  return "lost";
}

std::optional<std::int64_t> lastStepOf(const std::vector<std::string>& reports) {
  std::optional<std::int64_t> step;
  for (const std::string& line : reports) {
    const auto report = protocol::parseReport(line);
    const auto reported = report ? protocol::wholeIn(*report, "step") : std::nullopt;
    if (reported) step = std::max(step.value_or(*reported), *reported);
  }
  return step;
}

std::vector<std::pair<std::int64_t, double>> lossesOf(const std::vector<std::string>& reports) {
  std::map<std::int64_t, double> losses;
  for (const std::string& line : reports) {
    const auto report = protocol::parseReport(line);
    if (!report || protocol::numberIn(*report, "rank").value_or(0) != 0) continue;
    const auto step = protocol::wholeIn(*report, "step");
    const auto loss = protocol::numberIn(*report, "loss");
    if (step && loss) losses[*step] = *loss;
  }
  return {losses.begin(), losses.end()};
}

std::vector<gang::Entry> readEntries(const std::string& path) {
  std::vector<gang::Entry> entries;
  const auto text = readFile(path, kNoLimit);
  if (!text) return entries;
  for (const std::string& line : split(*text, '\n')) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (json.is_discarded()) continue;
    if (auto entry = gang::entryFromJson(json)) entries.push_back(*std::move(entry));
  }
  return entries;
}

RunView readRun(const RunStore& store, const RunId& id) {
  RunView run{.id = id, .paths = store.paths(id)};
  // Asked first: a run that ends while it is read is then seen as running, not as lost.
  run.coordinator = store.coordinator(id);
  if (fileExists(run.paths.pipeline())) {
    run.kind = RunKind::kPipeline;
  } else {
    spec::Loaded loaded = spec::loadJobFile(run.paths.job(), {});
    if (loaded.ok()) run.job = std::move(loaded.job);
  }
  run.in_charge = run.coordinator.has_value();
  run.record = run.paths.directory;
  run.entries = readEntries(run.paths.events());
  conclude(run);
  if (run.status == RunStatus::kLost) {
    const bool pipeline = run.kind == RunKind::kPipeline;
    run.advice = fmt::format("its dure process died; go on with: dure {}run --resume {}",
                             pipeline ? "pipeline " : "", id.text());
  }
  if (const auto metrics = readFile(run.paths.metrics(), kNoLimit)) {
    const std::vector<std::string> reports = split(*metrics, '\n');
    const auto tail = std::min<std::ptrdiff_t>(kLastReports, std::ssize(reports));
    run.step = lastStepOf({reports.end() - tail, reports.end()});
  }
  return run;
}

void readLosses(RunView& run) {
  const auto metrics = readFile(run.paths.metrics(), kNoLimit);
  if (metrics) run.losses = lossesOf(split(*metrics, '\n'));
}

void conclude(RunView& run) {
  run.state = gang::replay(run.entries);
  run.status = statusOf(run);
}

std::vector<RunView> readRuns(const RunStore& store) {
  std::vector<RunView> runs;
  for (const RunId& id : store.list()) runs.push_back(readRun(store, id));
  std::stable_sort(runs.begin(), runs.end(), [](const RunView& a, const RunView& b) {
    return a.state.created < b.state.created;
  });
  return runs;
}

nlohmann::json toJson(const RunView& run) {
  nlohmann::json json = {{"name", run.id.name},
                         {"run", run.id.number},
                         {"id", run.id.text()},
                         {"kind", kindName(run.kind)},
                         {"status", statusName(run.status)},
                         {"generation", run.state.generation},
                         {"workers", run.state.workers},
                         {"failures", run.state.failures},
                         {"joined", run.state.joined},
                         {"created", formatTime(run.state.created)},
                         {"changed", formatTime(run.state.changed)},
                         {"directory", run.record}};
  if (run.job) json["strategy"] = spec::strategyName(run.job->strategy);
  if (run.coordinator) json["pid"] = *run.coordinator;
  if (run.step) json["step"] = *run.step;
  if (!run.state.reason.empty()) json["reason"] = run.state.reason;
  return json;
}

}  // namespace dure::runs
