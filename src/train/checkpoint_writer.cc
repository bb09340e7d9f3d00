#include "train/checkpoint_writer.h"

#include <fmt/core.h>

#include <algorithm>

namespace dure {
namespace {

// How often the first worker looks whether the others have written their files.
constexpr std::chrono::milliseconds kLookAgain{20};
// How long it waits for them at the end.
constexpr std::chrono::seconds kPatience{120};

}  // namespace

CheckpointWriter::CheckpointWriter(CheckpointStore store, int keep,
                                   std::function<void(const std::string&)> complain)
    : store_(std::move(store)),
      keep_(keep),
      complain_(std::move(complain)),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

CheckpointWriter::~CheckpointWriter() {
  thread_.request_stop();
  changed_.notify_all();
}

void CheckpointWriter::write(Snapshot snapshot) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return waiting_.empty() && !writing_; });
  waiting_.push_back(std::move(snapshot));
  changed_.notify_all();
}

void CheckpointWriter::finish() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return waiting_.empty() && !writing_; });
  const auto published = [&] { return unpublished_.empty(); };
  if (changed_.wait_for(lock, kPatience, published)) return;
  complain_(fmt::format("the checkpoint of step {} is lost: other workers did not write their part",
                        unpublished_.front().step));
}

std::int64_t CheckpointWriter::written() const {
  const std::lock_guard lock(mutex_);
  return written_;
}

Status CheckpointWriter::writeFiles(const Snapshot& snapshot) const {
  auto staged = store_.stage(snapshot.step);
  if (!staged) return std::move(staged).error();
  for (const auto& [name, content] : snapshot.files) {
    if (auto written = writeSafetensors(*staged + "/" + name, content); !written) return written;
    if (auto sealed = CheckpointStore::seal(*staged, name); !sealed) return sealed;
  }
  return {};
}

// In the order of the steps; one that is not whole yet holds up the later ones, which cannot be
// whole much earlier.
void CheckpointWriter::publishWhole() {
  std::unique_lock lock(mutex_);
  while (!unpublished_.empty()) {
    const CheckpointStore::Manifest manifest = unpublished_.front();
    lock.unlock();
    auto staged = store_.stage(manifest.step);
    const bool whole =
        staged && std::all_of(manifest.files.begin(), manifest.files.end(), [&](const auto& file) {
          return CheckpointStore::isSealed(*staged, file);
        });
    if (staged && !whole) return;
    Status done = staged ? store_.publish(manifest) : Status(staged.error());
    if (done) done = store_.prune(keep_);
    if (!done)
      complain_(fmt::format("the checkpoint of step {} is lost: {}", manifest.step,
                            done.error().message()));
    lock.lock();
    if (done) ++written_;
    unpublished_.pop_front();
    changed_.notify_all();
  }
}

void CheckpointWriter::run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    publishWhole();
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
      // Only the first worker's: the others may still be writing theirs.
      if (snapshot.manifest) store_.discard(snapshot.step);
      complain_(fmt::format("the checkpoint of step {} could not be written, training goes on: {}",
                            snapshot.step, written.error().message()));
    }
    lock.lock();
    writing_ = false;
    if (written && snapshot.manifest) unpublished_.push_back(std::move(*snapshot.manifest));
    changed_.notify_all();
  }
}

}  // namespace dure
