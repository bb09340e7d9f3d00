#include "runs/run_reader.h"

#include <algorithm>
#include <limits>
#include <map>

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "spec/load.h"

namespace dure {
namespace {

constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();
// Enough for the last report of every rank.
constexpr std::size_t kMetricsTail = 256u << 10u;

std::string statusOf(const RunView& run) {
  if (run.state.outcome) return outcomeName(*run.state.outcome);
  if (!run.coordinator) return "lost";
  if (run.entries.empty()) return "starting";
  for (auto entry = run.entries.rbegin(); entry != run.entries.rend(); ++entry) {
    switch (entry->kind) {
      case EntryKind::kRunning:
        return "running";
      case EntryKind::kStopping:
        return "stopping";
      case EntryKind::kEnded:
      case EntryKind::kWaiting:
        return "waiting";
      case EntryKind::kCreated:
      case EntryKind::kResumed:
      case EntryKind::kStarting:
        return "starting";
      default:
        continue;
    }
  }
  return "starting";
}

std::optional<std::int64_t> lastStep(const std::string& path) {
  const auto text = readFile(path, kNoLimit);
  if (!text) return std::nullopt;
  const std::string tail =
      text->substr(text->size() > kMetricsTail ? text->size() - kMetricsTail : 0);
  std::optional<std::int64_t> step;
  for (const std::string& line : split(tail, '\n')) {
    const auto report = nlohmann::json::parse(line, nullptr, false);
    if (!report.is_object() || !report.contains("step")) continue;
    if (!report["step"].is_number_integer()) continue;
    const auto reported = report["step"].get<std::int64_t>();
    step = std::max(step.value_or(reported), reported);
  }
  return step;
}

}  // namespace

std::vector<std::pair<std::int64_t, double>> readLosses(const std::string& metrics_path) {
  const auto text = readFile(metrics_path, kNoLimit);
  std::map<std::int64_t, double> losses;
  for (const std::string& line : split(text ? *text : "", '\n')) {
    const auto report = nlohmann::json::parse(line, nullptr, false);
    if (!report.is_object() || report.value("rank", 0) != 0 || !report.contains("step") ||
        !report.contains("loss")) {
      continue;
    }
    if (!report["step"].is_number_integer() || !report["loss"].is_number()) continue;
    losses[report["step"].get<std::int64_t>()] = report["loss"].get<double>();
  }
  return {losses.begin(), losses.end()};
}

std::vector<Entry> readEntries(const std::string& path) {
  std::vector<Entry> entries;
  const auto text = readFile(path, kNoLimit);
  if (!text) return entries;
  for (const std::string& line : split(*text, '\n')) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (json.is_discarded()) continue;
    if (auto entry = entryFromJson(json)) entries.push_back(*std::move(entry));
  }
  return entries;
}

RunView readRun(const RunStore& store, const RunId& id) {
  RunView run{.id = id, .paths = store.paths(id)};
  // Asked first: a run that ends while it is read is then seen as running, not as lost.
  run.coordinator = store.coordinator(id);
  Loaded loaded = loadJobFile(run.paths.job(), {});
  if (loaded.ok()) run.job = std::move(loaded.job);
  run.entries = readEntries(run.paths.events());
  run.state = replay(run.entries);
  run.step = lastStep(run.paths.metrics());
  run.status = statusOf(run);
  return run;
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
                         {"status", run.status},
                         {"generation", run.state.generation},
                         {"workers", run.state.workers},
                         {"failures", run.state.failures},
                         {"joined", run.state.joined},
                         {"created", formatTime(run.state.created)},
                         {"changed", formatTime(run.state.changed)},
                         {"directory", run.paths.directory}};
  if (run.job) json["strategy"] = strategyName(run.job->strategy);
  if (run.coordinator) json["pid"] = *run.coordinator;
  if (run.step) json["step"] = *run.step;
  if (!run.state.reason.empty()) json["reason"] = run.state.reason;
  return json;
}

}  // namespace dure
