#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "serve/metrics.h"
#include "serve/model_store.h"
#include "serve/request_task.h"

namespace dure::serve {

struct BatchOptions {
  std::size_t size = 32;                  // requests that a model runs on together
  std::chrono::microseconds delay{1000};  // that a request waits for others at the most
  std::size_t queue = 1024;               // requests that wait
  std::size_t threads = 1;
};

// A request that waits for its model, and what is to be done with the reply.
struct BatchJob {
  std::shared_ptr<const LoadedModel> model;  // the one that it began with
  std::unique_ptr<RequestTask> task;
  std::function<void(HttpReply)> done;  // called once, from a thread of the batcher
  std::chrono::steady_clock::time_point queued;
};

// Runs models on requests, several at once where they wait together. A request never waits for
// others while there is nothing else to do; and a batch is of one loaded model.
class Batcher {
 public:
  // `started` is called first in every thread. `metrics` outlives the batcher.
  Batcher(BatchOptions options, Metrics& metrics, const std::function<void()>& started);
  Batcher(const Batcher&) = delete;
  // Finishes what is queued.
  ~Batcher();

  // False, and `job` is left as it is, if too many wait already.
  bool submit(BatchJob& job);

 private:
  void work(const std::stop_token& stop);
  std::vector<BatchJob> take(const std::stop_token& stop);
  void run(std::vector<BatchJob> jobs);

  const BatchOptions options_;
  Metrics& metrics_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<BatchJob> queue_;  // guarded by mutex_
  std::size_t running_ = 0;     // batches; guarded by mutex_
  std::vector<std::jthread> threads_;
};

}  // namespace dure::serve
