#pragma once

#include <string>

// The names in a rank's environment. The gang writes what the trainer, the agents and the clean-up
// of a lost run read: all of them use these.
namespace dure {

namespace variables {
inline constexpr const char* kJob = "DURE_JOB";
inline constexpr const char* kRun = "DURE_RUN";
inline constexpr const char* kRunId = "DURE_RUN_ID";  // by hand, where no file says it
inline constexpr const char* kStrategy = "DURE_STRATEGY";
inline constexpr const char* kGeneration = "DURE_GENERATION";
inline constexpr const char* kTask = "DURE_TASK";
inline constexpr const char* kRole = "DURE_ROLE";
inline constexpr const char* kIndex = "DURE_INDEX";
inline constexpr const char* kTaskDirectory = "DURE_TASK_DIR";
inline constexpr const char* kRank = "DURE_RANK";
inline constexpr const char* kWorldSize = "DURE_WORLD_SIZE";
inline constexpr const char* kLocalRank = "DURE_LOCAL_RANK";
inline constexpr const char* kLocalWorldSize = "DURE_LOCAL_WORLD_SIZE";
inline constexpr const char* kMetrics = "DURE_METRICS";
inline constexpr const char* kCheckpoint = "DURE_CHECKPOINT";
inline constexpr const char* kOutput = "DURE_OUTPUT";
// Where the first rank waits for the others.
inline constexpr const char* kMasterAddress = "DURE_MASTER_ADDR";
inline constexpr const char* kMasterPort = "DURE_MASTER_PORT";
}  // namespace variables

// Files of the task's directory.
namespace task_files {
inline constexpr const char* kJob = "job.yaml";
inline constexpr const char* kRunId = "run_id";
// The pipe that a process of the task reports its metrics to.
inline std::string metricsOf(const std::string& directory, int local_rank) {
  return directory + "/metrics-" + std::to_string(local_rank);
}
}  // namespace task_files

// What lines of dure-trainer on standard error begin with, of which the last says why it failed.
inline constexpr const char* kTrainerPrefix = "dure-trainer: ";

// The exit code of a trainer that was given what cannot work: the next try would fail as well.
inline constexpr int kTrainerRefused = 2;

}  // namespace dure
