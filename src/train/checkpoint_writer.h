#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "format/safetensors.h"
#include "train/checkpoint_store.h"

namespace dure::train {

// Writes checkpoints in the background. Every worker has one, for its own files; the first one's
// also waits for the others' files and publishes the whole. One that a worker could not write its
// part of is given up, and the later ones are published all the same.
class CheckpointWriter {
 public:
  struct Snapshot {
    std::int64_t step = 0;
    std::vector<std::pair<std::string, format::Safetensors>> files;  // this worker's
    // In the first worker: all that belongs to the checkpoint, others' files included.
    std::optional<CheckpointStore::Manifest> manifest;
  };

  struct Options {
    int keep = 3;
    // Called in the writer's thread, with a sentence for each checkpoint that could not be written;
    // training goes on, and the older ones stay.
    std::function<void(const std::string&)> complain;
    // How long the first worker waits for the others' parts.
    std::chrono::milliseconds patience{120'000};
  };

  CheckpointWriter(CheckpointStore store, Options options);
  ~CheckpointWriter();

  // Whether an earlier snapshot is still being written, by this worker or, as the first one sees
  // it, by any.
  bool isBusy() const;
  // Returns at once unless this worker is still writing an earlier one. Steps only grow.
  void write(Snapshot snapshot);
  // Waits until everything is written and published, or given up.
  void finish();

  std::int64_t written() const;
  // As the store's, once a checkpoint was refused because somebody else has taken the directory: no
  // later one will be published either.
  Status checkTaken() const;

 private:
  struct Unpublished {
    CheckpointStore::Manifest manifest;
    std::chrono::steady_clock::time_point since;
  };
  enum class Part { kComing, kWhole, kFailed };

  void run(const std::stop_token& stop);
  Status writeFiles(const Snapshot& snapshot) const;
  Part lookAt(const CheckpointStore::Manifest& manifest) const;
  void settleWhatCan();
  void publish(const CheckpointStore::Manifest& manifest);
  void noteIfTaken(const Error& error);
  void giveUp(std::int64_t step, const std::string& why);
  void discardLost();

  const CheckpointStore store_;
  const Options options_;
  std::vector<std::int64_t> lost_;  // of the writer's thread; other workers may still write there

  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Snapshot> waiting_;         // guarded by mutex_
  bool writing_ = false;                 // guarded by mutex_
  std::int64_t written_ = 0;             // guarded by mutex_
  Status taken_;                         // guarded by mutex_
  std::deque<Unpublished> unpublished_;  // guarded by mutex_; only the writer's thread changes it
  std::jthread thread_;
};

}  // namespace dure::train
