#include "gang/journal.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "base/process.h"
#include "base/text.h"

namespace dure::gang {
namespace {

constexpr std::array<std::pair<EntryKind, const char*>, 14> kKinds{
    {{EntryKind::kCreated, "created"},
     {EntryKind::kResumed, "resumed"},
     {EntryKind::kPending, "pending"},
     {EntryKind::kStarting, "starting"},
     {EntryKind::kJoined, "joined"},
     {EntryKind::kRunning, "running"},
     {EntryKind::kExited, "exited"},
     {EntryKind::kStopping, "stopping"},
     {EntryKind::kEnded, "ended"},
     {EntryKind::kResized, "resized"},
     {EntryKind::kWaiting, "waiting"},
     {EntryKind::kSilent, "silent"},
     {EntryKind::kWarned, "warned"},
     {EntryKind::kFinished, "finished"}}};

constexpr std::array<std::pair<Outcome, const char*>, 4> kOutcomes{
    {{Outcome::kSucceeded, "succeeded"},
     {Outcome::kFailed, "failed"},
     {Outcome::kStopped, "stopped"},
     {Outcome::kInfrastructureFailed, "infrastructure failed"}}};
// As earlier versions wrote it.
constexpr const char* kOldInfrastructureFailed = "place failed";

template <typename Table, typename Value>
std::string nameIn(const Table& table, Value value) {
  for (const auto& [candidate, name] : table) {
    if (candidate == value) return name;
  }
  return "";
}

template <typename Value, typename Table>
std::optional<Value> valueIn(const Table& table, const std::string& name) {
  for (const auto& [value, candidate] : table) {
    if (name == candidate) return value;
  }
  return std::nullopt;
}

std::optional<Outcome> outcomeOf(const std::string& name) {
  if (name == kOldInfrastructureFailed) return Outcome::kInfrastructureFailed;
  return valueIn<Outcome>(kOutcomes, name);
}

std::string who(const Entry& entry) {
  if (!entry.rank) return entry.task;
  return fmt::format("rank {} ({})", *entry.rank, entry.task);
}

}  // namespace

std::string entryKindName(EntryKind kind) { return nameIn(kKinds, kind); }
std::string outcomeName(Outcome outcome) { return nameIn(kOutcomes, outcome); }

nlohmann::json toJson(const Entry& entry) {
  nlohmann::json json = {{"time", formatTime(entry.time)},
                         {"event", entryKindName(entry.kind)},
                         {"generation", entry.generation}};
  if (!entry.run_id.empty()) json["run_id"] = entry.run_id;
  if (!entry.task.empty()) json["task"] = entry.task;
  if (entry.rank) json["rank"] = *entry.rank;
  if (!entry.host.empty()) json["host"] = toValidUtf8(entry.host);
  if (!entry.node.empty()) json["node"] = toValidUtf8(entry.node);
  if (entry.pid != 0) json["pid"] = entry.pid;
  if (entry.code) json["code"] = *entry.code;
  if (entry.signal != 0) json["signal"] = entry.signal;
  if (entry.workers != 0) json["workers"] = entry.workers;
  if (!entry.gpus.empty()) json["gpus"] = entry.gpus;
  if (entry.counted) json["counted"] = true;
  if (entry.delay.count() != 0) json["delay_ms"] = entry.delay.count();
  if (entry.outcome) json["outcome"] = outcomeName(*entry.outcome);
  if (!entry.reason.empty()) json["reason"] = toValidUtf8(entry.reason);
  return json;
}

Result<Entry> entryFromJson(const nlohmann::json& json) {
  try {
    Entry entry;
    const auto kind = valueIn<EntryKind>(kKinds, json.at("event").get<std::string>());
    if (!kind) return Error(Code::kInvalid, "an event of an unknown kind");
    entry.kind = *kind;
    entry.time = parseTime(json.at("time").get<std::string>());
    entry.generation = json.value("generation", 0);
    entry.run_id = json.value("run_id", "");
    entry.task = json.value("task", "");
    if (json.contains("rank")) entry.rank = json["rank"].get<int>();
    entry.host = json.value("host", "");
    entry.node = json.value("node", "");
    entry.pid = json.value("pid", 0);
    if (json.contains("code")) entry.code = json["code"].get<int>();
    entry.signal = json.value("signal", 0);
    entry.workers = json.value("workers", 0);
    entry.gpus = json.value("gpus", std::vector<int>());
    entry.counted = json.value("counted", false);
    entry.delay = Duration(json.value("delay_ms", std::int64_t{0}));
    entry.outcome = outcomeOf(json.value("outcome", ""));
    entry.reason = json.value("reason", "");
    return entry;
  } catch (const nlohmann::json::exception& error) {
    return Error(Code::kInvalid, std::string("not an event: ") + error.what());
  }
}

std::string describeEntry(const Entry& entry) {
  switch (entry.kind) {
    case EntryKind::kCreated:
      return "created";
    case EntryKind::kResumed:
      return "resumed by a new coordinator";
    case EntryKind::kPending:
      return entry.reason;
    case EntryKind::kStarting:
      return fmt::format("generation {} starts with {} {}", entry.generation, entry.workers,
                         entry.workers == 1 ? "worker" : "workers");
    case EntryKind::kJoined:
      return fmt::format("{} joined from {} (process {})", who(entry),
                         entry.node.empty() ? entry.host : entry.node, entry.pid);
    case EntryKind::kRunning:
      return fmt::format("generation {} runs", entry.generation);
    case EntryKind::kExited:
      return fmt::format("{} {}", who(entry),
                         describeExit({.code = entry.code.value_or(0), .signal = entry.signal}));
    case EntryKind::kStopping:
      return entry.reason.empty() ? "stopping" : "stopping: " + entry.reason;
    case EntryKind::kEnded:
      return fmt::format("generation {} ended{}{}", entry.generation,
                         entry.reason.empty() ? "" : ": ", entry.reason);
    case EntryKind::kResized:
      return fmt::format("goes on with {} workers: {}", entry.workers, entry.reason);
    case EntryKind::kWaiting:
      return fmt::format("waits {} before the next generation", describeDuration(entry.delay));
    case EntryKind::kSilent:
      return fmt::format("{} is silent: {}", who(entry), entry.reason);
    case EntryKind::kWarned:
      return entry.rank ? fmt::format("{}: {}", who(entry), entry.reason) : entry.reason;
    case EntryKind::kFinished:
      return outcomeName(entry.outcome.value_or(Outcome::kFailed)) +
             (entry.reason.empty() ? "" : ": " + entry.reason);
  }
  return "";
}

RunState replay(const std::vector<Entry>& entries) {
  RunState state;
  bool pending = false;  // a counted failure whose generation was not seen to be gone
  const auto note = [&](const Entry& entry) {
    const auto same = [&](const Entry& e) { return e.task == entry.task && e.rank == entry.rank; };
    const auto known = std::find_if(state.tasks.begin(), state.tasks.end(), same);
    if (known == state.tasks.end()) {
      state.tasks.push_back(entry);
      return;
    }
    // An exit keeps where the rank was.
    Entry merged = entry;
    if (merged.host.empty()) merged.host = known->host;
    if (merged.node.empty()) merged.node = known->node;
    if (merged.pid == 0) merged.pid = known->pid;
    *known = merged;
  };
  for (const Entry& entry : entries) {
    state.changed = entry.time;
    switch (entry.kind) {
      case EntryKind::kCreated:
        state.created = entry.time;
        break;
      case EntryKind::kResumed:
        if (std::exchange(pending, false)) ++state.failures;
        state.outcome.reset();
        state.reason.clear();
        state.running = false;
        break;
      case EntryKind::kPending:
        state.reason = entry.reason;
        break;
      case EntryKind::kStarting:
        state.generation = entry.generation;
        state.workers = entry.workers;
        state.gpus = entry.gpus;
        state.reason.clear();
        state.joined = 0;
        state.running = false;
        state.ended = false;
        state.tasks.clear();
        break;
      case EntryKind::kJoined:
        if (!entry.rank || state.tasks.empty() || state.tasks.back().task != entry.task) {
          ++state.joined;
        }
        note(entry);
        break;
      case EntryKind::kExited:
        note(entry);
        break;
      case EntryKind::kRunning:
        state.running = true;
        state.reason.clear();
        break;
      case EntryKind::kStopping:
        pending = entry.counted;
        state.running = false;
        state.reason = entry.reason;
        break;
      case EntryKind::kEnded:
        pending = false;
        if (entry.counted) ++state.failures;
        state.running = false;
        state.ended = true;
        state.reason = entry.reason;
        break;
      case EntryKind::kResized:
        state.workers = entry.workers;
        state.resized = entry.workers;
        break;
      case EntryKind::kWaiting:
      case EntryKind::kSilent:
      case EntryKind::kWarned:
        break;
      case EntryKind::kFinished:
        state.outcome = entry.outcome;
        state.reason = entry.reason;
        state.running = false;
        break;
    }
  }
  if (pending) ++state.failures;
  return state;
}

}  // namespace dure::gang
