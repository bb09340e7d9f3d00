#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "gang/journal.h"
#include "runs/run_store.h"

namespace dure::runs {

enum class RunStatus {
  kPending,  // until the gang can be placed
  kStarting,
  kRunning,
  kStopping,
  kWaiting,  // until it is started again
  kSucceeded,
  kFailed,
  kStopped,
  kInfrastructureFailed,
  kLost  // it had not ended, and nobody is in charge of it
};
// As people and scripts read it: "running", "infrastructure failed".
std::string statusName(RunStatus status);

enum class RunKind { kJob, kPipeline };
// "job", "pipeline".
std::string kindName(RunKind kind);

// A run as commands show it.
struct RunView {
  RunId id;
  RunPaths paths;
  RunKind kind = RunKind::kJob;
  std::optional<spec::Job> job;  // nothing if the record is damaged, or of no job
  std::vector<gang::Entry> entries;
  gang::RunState state;
  std::optional<pid_t> coordinator;  // the process of this machine that is in charge
  bool in_charge = false;            // somebody is
  std::string record;                // where it is, for people
  RunStatus status = RunStatus::kStarting;
  std::string advice;                // why it is lost, and what to do about it
  std::optional<std::int64_t> step;  // the highest that a rank has reported
  std::string report;                // the last one of the first rank, where it is at hand
  std::vector<std::pair<std::int64_t, double>> losses;  // see readLosses()
};

// Reads the record of a run that may be going on. Lines that are not whole are passed over.
RunView readRun(const RunStore& store, const RunId& id);
std::vector<RunView> readRuns(const RunStore& store);

// They take a while to read, and are left out otherwise.
void readLosses(RunView& run);

// What the lines of a journal amount to: fills in the state, and the status.
void conclude(RunView& run);
// The highest step among reports of ranks, each a line of JSON.
std::optional<std::int64_t> lastStepOf(const std::vector<std::string>& reports);
// What the first rank reported as "loss", by step; where a restart went over steps again, the last
// one of each counts.
std::vector<std::pair<std::int64_t, double>> lossesOf(const std::vector<std::string>& reports);

std::vector<gang::Entry> readEntries(const std::string& path);
nlohmann::json toJson(const RunView& run);

}  // namespace dure::runs
