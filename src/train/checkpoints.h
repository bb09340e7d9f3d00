#pragma once

#include <optional>

#include "group/group.h"
#include "spec/job.h"
#include "train/checkpoint_writer.h"
#include "train/network.h"
#include "train/optimizer.h"
#include "train/progress.h"
#include "train/rank_environment.h"
#include "train/reporter.h"
#include "train/synchronizer.h"
#include "train/training_data.h"

namespace dure::train {

// Turns the state of a training into checkpoints, and back. Workers that are the same after every
// step have one state between them, which the first one writes; others write one each.
class Checkpoints {
 public:
  // Everything outlives it.
  Checkpoints(const spec::Job& job, const RankEnvironment& here, const TrainingData& data,
              Network& network, FlatOptimizer& optimizer, Synchronizer& sync, group::Group& group,
              Reporter& reporter);

  // Loads the newest whole checkpoint, if there is one of this training, in every worker; also its
  // global batch. Invalid if the directory has an unfinished training that is another,
  // or another run writes to it. From then on no earlier generation of this run can publish.
  Status resume(Progress& progress, std::int64_t& global_batch);

  // Takes a snapshot if it is time to and the one before is written. Invalid, and none is taken, if
  // a weight is NaN or infinite.
  Status afterStep(const Progress& progress, std::int64_t global_batch, bool epoch_over, bool last);
  // Waits for what is being written.
  void settle();
  // Conflict if a later generation, or another run, has taken the directory: this gang is over.
  Status checkTaken() const;
  // The model is written as well: the next run of the job begins anew.
  Status finish();

  // Of this run: how many are whole, and the seconds that training stood still for taking them.
  std::int64_t written() const { return writer_ ? writer_->written() : 0; }
  double delay() const { return delay_; }

 private:
  bool differ() const;
  Status openStore(const std::string& token);
  Status lockDirectory();
  Result<CheckpointStore::Search> choose();
  Status checkSame(const CheckpointStore::Manifest& manifest) const;
  Result<bool> isTime(const Progress& progress, bool epoch_over, bool last);
  Status broadcastState(Progress& progress, std::int64_t& global_batch);
  void take(const Progress& progress, std::int64_t global_batch);
  Status load(const CheckpointStore::Found& found, Progress& progress);
  Result<nlohmann::json> describeTraining() const;
  format::Safetensors ownState(const Progress& progress) const;
  Status loadOwnState(const format::Safetensors& state, Progress& progress, int world_then);

  const spec::Job& job_;
  const RankEnvironment& here_;
  const TrainingData& data_;
  Network& network_;
  FlatOptimizer& optimizer_;
  Synchronizer& sync_;
  group::Group& group_;
  Reporter& reporter_;
  std::optional<FileLock> lock_;  // in the first worker
  nlohmann::json about_;          // what makes it this training, where there is a store
  std::optional<CheckpointStore> store_;
  std::optional<CheckpointWriter> writer_;
  std::chrono::steady_clock::time_point last_time_;
  std::int64_t last_step_ = 0;  // at which one was taken, or left out
  double delay_ = 0;
};

}  // namespace dure::train
