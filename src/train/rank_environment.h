#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace dure::train {

// What the environment says to the rank of a native job. Without Dure around it, it trains alone.
struct RankEnvironment {
  int rank = 0;
  int world = 1;
  int generation = 1;
  std::string job_file;   // $DURE_TASK_DIR/job.yaml, or the argument
  std::string directory;  // the task's own, or empty
  std::string address;    // of the first rank
  std::uint16_t port = 0;
  std::string run;     // its name, or empty
  std::string run_id;  // of this run alone: $DURE_TASK_DIR/run_id, or DURE_RUN_ID by hand; or empty
  std::string key;     // of this gang of this run
  std::string metrics;     // a pipe to report to, or empty
  std::string checkpoint;  // directories and files, whole; empty: none
  std::string output;
};

// Reads the variables that `dure env` prints, and the task's own directory. Invalid, naming the
// variable, if one makes no sense.
Result<RankEnvironment> readRankEnvironment();

}  // namespace dure::train
