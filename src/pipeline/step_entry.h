#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/clock.h"
#include "base/files.h"
#include "gang/journal.h"
#include "runs/run_store.h"

namespace dure::pipeline {

enum class PartStatus {
  kWaiting,  // for what it needs, or for a processor
  kRunning,  // an attempt; a service until it is ready
  kReady,    // a service that runs
  kSucceeded,
  kCached,  // an earlier run had done the same
  kFailed,  // and no attempt is left
  kStopped,
};
// As people and scripts read it.
std::string statusName(PartStatus status);
// Succeeded, cached or ready: what needs it may begin.
bool isDone(PartStatus status);

// The reason of a cached part: this, and the run that has done it.
inline constexpr std::string_view kAsIn = "as in ";

// What happened to one part of a pipeline. It stands among the entries of the run's journal, whose
// readers pass over it.
struct StepEntry {
  TimePoint time;
  std::string part;
  PartStatus status = PartStatus::kWaiting;
  int attempt = 0;     // from 1
  std::string run;     // of this attempt, in the record's own store: "train-0.1"
  std::string key;     // of all that the result depends on
  std::string digest;  // of the output
  std::string reason;
};
nlohmann::json toJson(const StepEntry& entry);
std::optional<StepEntry> stepEntryFromJson(const nlohmann::json& json);
// One sentence, as `dure describe` prints it.
std::string describeEntry(const StepEntry& entry);

// How a part stands.
struct PartState {
  PartStatus status = PartStatus::kWaiting;
  int attempts = 0;
  std::string run;
  std::string key;
  std::string digest;
  std::string reason;
  TimePoint began;  // of the last attempt
  TimePoint ended;
};
void apply(PartState& state, const StepEntry& entry);

// Lines that are not whole, and entries of other kinds, are passed over.
std::vector<StepEntry> readStepEntries(const std::string& path);

// The journal of a pipeline: durable when append() returns.
class StepJournal {
 public:
  static Result<StepJournal> open(const runs::RunPaths& paths);
  Status append(const gang::Entry& entry);
  Status append(const StepEntry& entry);

 private:
  explicit StepJournal(AppendFile file) : file_(std::move(file)) {}
  Status write(const nlohmann::json& json);
  AppendFile file_;
};

}  // namespace dure::pipeline
