#pragma once

#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

#include "base/fd.h"
#include "train/rank_environment.h"

namespace dure::train {

struct EpochResult {
  std::int64_t epoch = 0;  // from 1
  double loss = 0;         // of training
  double accuracy = 0;
  bool tested = false;
  double test_loss = 0;
  double test_accuracy = 0;
  double samples_per_second = 0;
  double seconds = 0;
};

struct TrainingSummary {
  bool classes = true;
  bool tested = false;
  double accuracy = 0;
  double loss = 0;
  double seconds = 0;
  double samples_per_second = 0;
  std::int64_t network_bytes = 0;
  std::int64_t memory_bytes = 0;
  double waited = 0;
  std::int64_t checkpoints = 0;  // written
  double snapshots = 0;          // seconds that training stood still for them, in one worker
  std::int64_t peak_memory = 0;  // of the largest worker
  std::string model;             // where it is; empty: nowhere
};

// Writes for people and for the run record. Lines for people come from the first worker alone;
// metrics go to the pipe that Dure reads, from every worker.
class Reporter {
 public:
  Reporter(const RankEnvironment& here, bool classes);

  // A line on standard output, from the first worker.
  void say(const std::string& line) const;
  // A line on standard error, with kTrainerPrefix before it, from any worker.
  void warn(const std::string& sentence) const;

  // A line of metrics; a reader that is slow or gone does not hold up the training.
  void metric(const nlohmann::json& line);

  void epoch(const EpochResult& result);
  void summary(const TrainingSummary& summary);

 private:
  const bool first_;
  const bool classes_;
  bool headed_ = false;
  Fd pipe_;
};

// "5,120"
std::string withCommas(std::int64_t number);

}  // namespace dure::train
