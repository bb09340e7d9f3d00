#pragma once

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

namespace dure {

// Writes checkpoints in the background. Every worker has one, for its own files; the first one's
// also waits for the others' files and publishes the whole.
class CheckpointWriter {
 public:
  struct Snapshot {
    std::int64_t step = 0;
    std::vector<std::pair<std::string, Safetensors>> files;  // this worker's
    // In the first worker: all that belongs to the checkpoint, others' files included.
    std::optional<CheckpointStore::Manifest> manifest;
  };

  // `complain` is called, in the writer's thread, with a sentence for each checkpoint that could
  // not be written; training goes on, and the older ones stay.
  CheckpointWriter(CheckpointStore store, int keep,
                   std::function<void(const std::string&)> complain);
  ~CheckpointWriter();

  // Returns at once unless an earlier snapshot is still being written.
  void write(Snapshot snapshot);
  // Waits until everything is written and published, or given up.
  void finish();

  std::int64_t written() const;

 private:
  void run(const std::stop_token& stop);
  Status writeFiles(const Snapshot& snapshot) const;
  void publishWhole();

  const CheckpointStore store_;
  const int keep_;
  const std::function<void(const std::string&)> complain_;

  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Snapshot> waiting_;                       // guarded by mutex_
  bool writing_ = false;                               // guarded by mutex_
  std::int64_t written_ = 0;                           // guarded by mutex_
  std::deque<CheckpointStore::Manifest> unpublished_;  // guarded by mutex_
  std::jthread thread_;
};

}  // namespace dure
