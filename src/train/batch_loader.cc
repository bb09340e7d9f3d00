#include "train/batch_loader.h"

namespace dure::train {
namespace {

constexpr std::size_t kAhead = 4;

}  // namespace

BatchLoader::BatchLoader(const TrainingData& data, const format::Split& split, NextRows next)
    : data_(data),
      split_(split),
      next_(std::move(next)),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

BatchLoader::~BatchLoader() {
  thread_.request_stop();
  changed_.notify_all();
}

Result<Batch> BatchLoader::take() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !ready_.empty() || ended_; });
  if (ready_.empty()) return Error(Code::kInvalid, "there are no more batches");
  Result<Batch> batch = std::move(ready_.front());
  ready_.pop_front();
  lock.unlock();
  changed_.notify_all();
  return batch;
}

// Nothing when there are no more. What is thrown, by torch for example, would end the process in
// this thread.
std::optional<Result<Batch>> BatchLoader::readNext() const try {
  const auto rows = next_();
  if (!rows) return std::nullopt;
  return data_.read(split_, *rows);
} catch (const std::bad_alloc&) {
  return Error(Code::kUnavailable, "there is not enough memory for a batch");
} catch (const std::exception& exception) {
  return Error(Code::kIo, std::string("read a batch: ") + exception.what());
}

void BatchLoader::run(const std::stop_token& stop) {
  while (auto read = readNext()) {
    Result<Batch>& batch = *read;
    const bool failed = !batch;
    std::unique_lock lock(mutex_);
    changed_.wait(lock, stop, [&] { return ready_.size() < kAhead; });
    if (stop.stop_requested()) return;
    ready_.push_back(std::move(batch));
    lock.unlock();
    changed_.notify_all();
    if (failed) break;
  }
  const std::lock_guard lock(mutex_);
  ended_ = true;
  changed_.notify_all();
}

}  // namespace dure::train
