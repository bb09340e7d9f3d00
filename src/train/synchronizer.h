#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "group/group.h"
#include "spec/job.h"
#include "train/network.h"
#include "train/sync_policy.h"

namespace dure::train {

// All-reduces gradients while backward still makes more of them: parameters become ready from the
// last to the first, so a bucket is a range of the flat buffer, and goes to a thread of its own as
// soon as all of its parameters are. Worth it where an all-reduce mostly waits for a network.
class GradientBuckets {
 public:
  // Both outlive this object. While `arm` to `finish` lasts, nobody else uses `group`.
  // It all-reduces the first `count` of the shared numbers.
  GradientBuckets(group::Group& group, Parameters& parameters, std::int64_t count);
  ~GradientBuckets();

  // Before the backward pass whose gradients are final.
  void arm();
  // After it: waits for all buckets.
  Status finish();

 private:
  struct Bucket {
    std::int64_t begin = 0;  // numbers of the flat buffer
    std::int64_t end = 0;
    int parameters = 0;
    int missing = 0;  // not ready yet
  };

  void ready(std::size_t parameter);
  void hand(std::size_t bucket);
  void run(const std::stop_token& stop);

  group::Group& group_;
  Parameters& parameters_;
  std::vector<Bucket> buckets_;  // in the order in which they are all-reduced
  std::vector<std::size_t> bucket_of_;
  // Shared with autograd, which forgets them, and the hooks in them, as soon as nobody holds them.
  std::vector<std::shared_ptr<torch::autograd::Node>> accumulators_;
  std::vector<bool> is_ready_;
  bool armed_ = false;
  std::size_t next_ = 0;  // the first bucket that was not handed over

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<std::size_t> waiting_;  // guarded by mutex_
  std::size_t reduced_ = 0;          // guarded by mutex_
  std::optional<Error> failed_;      // guarded by mutex_
  std::jthread thread_;
};

// Carries out the synchronisation policy: what the workers share, and when.
class Synchronizer {
 public:
  // `group` and `network` outlive it.
  Synchronizer(const spec::Train& train, group::Group& group, Network& network);

  // The workers all-reduce gradients in every step.
  bool sharesGradients() const { return policy_->sharesGradients() && group_.size() > 1; }

  // The few numbers beside the gradients as well; not where compression would round them.
  bool sharesExtras() const { return sharesGradients() && !compresses_; }

  // Before the last backward pass of a step, and after it.
  void beforeBackward();
  Status afterBackward();
  // After the optimizer's step; `done` is the number of steps done. Averages the weights if it is
  // time to, or if the epoch is over.
  Status afterStep(std::int64_t done, bool epoch_over);
  // After the last step: with one-shot averaging the workers average their weights. Others have the
  // same weights already.
  Status atEnd();

  const SyncPolicy& policy() const { return *policy_; }

  // What a restart needs beside the weights; undefined unless there is outer momentum.
  at::Tensor& momentum() { return momentum_; }
  // After a checkpoint's weights were loaded.
  void weightsLoaded();

  double waitedSeconds() const { return waited_; }

 private:
  Status averageBuffers();
  Status averageWeights();

  const spec::Sync sync_;
  const std::unique_ptr<SyncPolicy> policy_;
  const bool compresses_;  // gradients, on their way to other hosts
  group::Group& group_;
  Network& network_;
  std::unique_ptr<collective::RegisteredMemory> registered_;  // what the workers all-reduce
  std::optional<GradientBuckets> buckets_;
  at::Tensor anchor_;  // the weights at the last average, where the change is what is shared
  at::Tensor momentum_;
  double waited_ = 0;
};

}  // namespace dure::train
