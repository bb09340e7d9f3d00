#include "pipeline/step_entry.h"

#include <array>
#include <limits>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "base/text.h"

namespace dure::pipeline {
namespace {

constexpr const char* kStepEvent = "step";

constexpr std::array<std::pair<PartStatus, const char*>, 7> kStatusNames{
    {{PartStatus::kWaiting, "waiting"},
     {PartStatus::kRunning, "running"},
     {PartStatus::kReady, "ready"},
     {PartStatus::kSucceeded, "succeeded"},
     {PartStatus::kCached, "cached"},
     {PartStatus::kFailed, "failed"},
     {PartStatus::kStopped, "stopped"}}};

std::string textIn(const nlohmann::json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

}  // namespace

std::string statusName(PartStatus status) {
  for (const auto& [candidate, name] : kStatusNames) {
    if (candidate == status) return name;
  }
  return "";
}

bool isDone(PartStatus status) {
  return status == PartStatus::kReady || status == PartStatus::kSucceeded ||
         status == PartStatus::kCached;
}

nlohmann::json toJson(const StepEntry& entry) {
  nlohmann::json json = {{"time", formatTime(entry.time)},
                         {"event", kStepEvent},
                         {"part", entry.part},
                         {"status", statusName(entry.status)}};
  if (entry.attempt > 0) json["attempt"] = entry.attempt;
  if (!entry.run.empty()) json["run"] = entry.run;
  if (!entry.key.empty()) json["key"] = entry.key;
  if (!entry.digest.empty()) json["digest"] = entry.digest;
  if (!entry.reason.empty()) json["reason"] = toValidUtf8(entry.reason);
  return json;
}

std::optional<StepEntry> stepEntryFromJson(const nlohmann::json& json) {
  if (!json.is_object() || textIn(json, "event") != kStepEvent) return std::nullopt;
  StepEntry entry{.time = parseTime(textIn(json, "time")), .part = textIn(json, "part")};
  const std::string status = textIn(json, "status");
  bool known = false;
  for (const auto& [candidate, name] : kStatusNames) {
    if (status == name) {
      entry.status = candidate;
      known = true;
    }
  }
  if (!known || entry.part.empty()) return std::nullopt;
  if (const auto attempt = json.find("attempt");
      attempt != json.end() && attempt->is_number_integer()) {
    entry.attempt = attempt->get<int>();
  }
  entry.run = textIn(json, "run");
  entry.key = textIn(json, "key");
  entry.digest = textIn(json, "digest");
  entry.reason = textIn(json, "reason");
  return entry;
}

std::string describeEntry(const StepEntry& entry) {
  std::string text = fmt::format("{} {}", entry.part, statusName(entry.status));
  if (entry.attempt > 1) text += fmt::format(", attempt {}", entry.attempt);
  if (!entry.reason.empty()) text += ": " + entry.reason;
  return text;
}

void apply(PartState& state, const StepEntry& entry) {
  state.status = entry.status;
  state.attempts = entry.attempt;
  state.reason = entry.reason;
  if (!entry.run.empty()) state.run = entry.run;
  if (!entry.key.empty()) state.key = entry.key;
  if (!entry.digest.empty()) state.digest = entry.digest;
  if (entry.status == PartStatus::kRunning) {
    state.began = entry.time;
    state.ended = {};
  } else if (entry.status != PartStatus::kWaiting) {
    state.ended = entry.time;
    if (entry.status == PartStatus::kCached) state.began = entry.time;
  }
}

std::vector<StepEntry> readStepEntries(const std::string& path) {
  std::vector<StepEntry> entries;
  const auto text = readFile(path, std::numeric_limits<std::size_t>::max());
  if (!text) return entries;
  for (const std::string& line : split(*text, '\n')) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (json.is_discarded()) continue;
    if (auto entry = stepEntryFromJson(json)) entries.push_back(*std::move(entry));
  }
  return entries;
}

Result<StepJournal> StepJournal::open(const runs::RunPaths& paths) {
  auto file = AppendFile::open(paths.events());
  if (!file) return std::move(file).error();
  return StepJournal(*std::move(file));
}

Status StepJournal::write(const nlohmann::json& json) {
  const auto failed = [](Error error) { return std::move(error).during("write the journal"); };
  if (auto s = file_.append(json.dump() + "\n"); !s) return failed(std::move(s).error());
  if (auto s = file_.sync(); !s) return failed(std::move(s).error());
  return {};
}

Status StepJournal::append(const gang::Entry& entry) { return write(gang::toJson(entry)); }
Status StepJournal::append(const StepEntry& entry) { return write(toJson(entry)); }

}  // namespace dure::pipeline
