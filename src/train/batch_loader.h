#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "train/training_data.h"

namespace dure::train {

// Reads and decodes batches in the background, in order, a few ahead of who takes them; so it holds
// a bounded number of them, whatever the size of the set.
class BatchLoader {
 public:
  // `next` says which rows are the following batch, and nothing when there are no more. It is
  // called in the loader's thread.
  using NextRows = std::function<std::optional<std::vector<std::int64_t>>()>;

  // `data` and `split` outlive the loader.
  BatchLoader(const TrainingData& data, const format::Split& split, NextRows next);
  ~BatchLoader();

  // The next batch, waiting for it if need be. Not to be called after the last.
  Result<Batch> take();

 private:
  void run(const std::stop_token& stop);
  std::optional<Result<Batch>> readNext() const;

  const TrainingData& data_;
  const format::Split& split_;
  const NextRows next_;

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Result<Batch>> ready_;  // guarded by mutex_
  bool ended_ = false;               // guarded by mutex_
  std::jthread thread_;
};

}  // namespace dure::train
