#include "train/checkpoint_writer.h"

#include <fmt/core.h>

#include <algorithm>

#include "format/safetensors_parse.h"

namespace dure::train {
namespace {

using SteadyClock = std::chrono::steady_clock;

// How often the first worker looks whether the others have written their files.
constexpr std::chrono::milliseconds kLookAgain{20};

}  // namespace

CheckpointWriter::CheckpointWriter(CheckpointStore store, Options options)
    : store_(std::move(store)),
      options_(std::move(options)),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

CheckpointWriter::~CheckpointWriter() {
  thread_.request_stop();
  changed_.notify_all();
}

bool CheckpointWriter::isBusy() const {
  const std::lock_guard lock(mutex_);
  return !waiting_.empty() || writing_ || !unpublished_.empty();
}

void CheckpointWriter::write(Snapshot snapshot) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return waiting_.empty() && !writing_; });
  waiting_.push_back(std::move(snapshot));
  changed_.notify_all();
}

// The writer's thread gives up what does not come, so that this ends.
void CheckpointWriter::finish() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return waiting_.empty() && !writing_ && unpublished_.empty(); });
}

std::int64_t CheckpointWriter::written() const {
  const std::lock_guard lock(mutex_);
  return written_;
}

Status CheckpointWriter::writeFiles(const Snapshot& snapshot) const try {
  auto staged = store_.stage(snapshot.step);
  if (!staged) return std::move(staged).error();
  for (const auto& [name, content] : snapshot.files) {
    const Status done = CheckpointStore::write(
        *staged, name, [&](const Sink& sink) { return format::writeSafetensorsTo(sink, content); });
    if (done) continue;
    CheckpointStore::markFailed(*staged, name);
    return done;
  }
  return {};
} catch (const std::exception& exception) {
  return Error(Code::kUnavailable, exception.what());
}

CheckpointWriter::Part CheckpointWriter::lookAt(const CheckpointStore::Manifest& manifest) const {
  const auto staged = store_.stage(manifest.step);
  if (!staged) return Part::kFailed;
  const auto any = [&](const auto& test) {
    return std::any_of(manifest.files.begin(), manifest.files.end(), test);
  };
  if (any([&](const auto& file) { return CheckpointStore::hasFailed(*staged, file); }))
    return Part::kFailed;
  return any([&](const auto& file) { return !CheckpointStore::isSealed(*staged, file); })
             ? Part::kComing
             : Part::kWhole;
}

// In the order of the steps. Every worker writes one after the other: once a later one is whole,
// what is missing of an earlier one will not come.
void CheckpointWriter::settleWhatCan() {
  std::unique_lock lock(mutex_);
  const std::deque<Unpublished> all = unpublished_;
  lock.unlock();
  std::size_t whole_before = all.size();
  while (whole_before > 0 && lookAt(all[whole_before - 1].manifest) != Part::kWhole) --whole_before;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const CheckpointStore::Manifest& manifest = all[i].manifest;
    const Part part = lookAt(manifest);
    const bool late = SteadyClock::now() - all[i].since > options_.patience;
    if (part == Part::kComing && i >= whole_before && !late) return;
    if (part == Part::kWhole) {
      publish(manifest);
    } else {
      giveUp(manifest.step, "another worker did not write its part");
    }
    lock.lock();
    unpublished_.pop_front();
    lock.unlock();
    changed_.notify_all();
  }
}

void CheckpointWriter::publish(const CheckpointStore::Manifest& manifest) {
  if (const Status published = store_.publish(manifest); !published) {
    giveUp(manifest.step, published.error().message());
    noteIfTaken(published.error());
    return;
  }
  discardLost();
  if (const Status pruned = store_.prune(options_.keep); !pruned) {
    noteIfTaken(pruned.error());
    options_.complain("older checkpoints could not be removed: " + pruned.error().message());
  }
  const std::lock_guard lock(mutex_);
  ++written_;
}

void CheckpointWriter::noteIfTaken(const Error& error) {
  if (error.code() != Code::kConflict && error.code() != Code::kExists) return;
  const std::lock_guard lock(mutex_);
  taken_ = error;
}

Status CheckpointWriter::checkTaken() const {
  const std::lock_guard lock(mutex_);
  return taken_;
}

void CheckpointWriter::giveUp(std::int64_t step, const std::string& why) {
  options_.complain(
      fmt::format("the checkpoint of step {} is lost, training goes on: {}", step, why));
  discardLost();
  store_.discard(step);
  lost_.push_back(step);
}

// Once more: a worker that was late may have written into what had been removed.
void CheckpointWriter::discardLost() {
  for (const std::int64_t step : lost_) store_.discard(step);
  lost_.clear();
}

void CheckpointWriter::run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    settleWhatCan();
    std::unique_lock lock(mutex_);
    const auto something = [&] { return !waiting_.empty(); };
    if (unpublished_.empty()) {
      changed_.wait(lock, stop, something);
    } else {
      changed_.wait_for(lock, stop, kLookAgain, something);
    }
    if (waiting_.empty()) continue;
    Snapshot snapshot = std::move(waiting_.front());
    waiting_.pop_front();
    writing_ = true;
    lock.unlock();
    const Status written = writeFiles(snapshot);
    if (!written) {
      const std::string& why = written.error().message();
      if (snapshot.manifest) {
        giveUp(snapshot.step, why);
      } else {
        options_.complain(
            fmt::format("this worker's part of the checkpoint of step {} could not be written: {}",
                        snapshot.step, why));
      }
    }
    lock.lock();
    writing_ = false;
    if (written && snapshot.manifest)
      unpublished_.push_back({std::move(*snapshot.manifest), SteadyClock::now()});
    changed_.notify_all();
  }
  discardLost();
}

}  // namespace dure::train
