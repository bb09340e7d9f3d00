#include "serve/batcher.h"

#include <algorithm>
#include <exception>

namespace dure::serve {
namespace {

// The rows of one part, of what a model gave for all.
Predictions partOf(const Predictions& all, std::int64_t first, std::int64_t rows) {
  const std::size_t each =
      all.rows == 0 ? 0 : all.values.size() / static_cast<std::size_t>(all.rows);
  const auto begin =
      all.values.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(first) * each);
  return {.rows = rows,
          .shape = all.shape,
          .values = {begin,
                     begin + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(rows) * each)}};
}

// Whatever a library throws ends one request, and not the server.
template <typename Make>
auto guarded(const Make& make) -> decltype(make()) {
  try {
    return make();
  } catch (const std::bad_alloc&) {
    return Error(Code::kUnavailable, "there is not enough memory for this request");
  } catch (const std::exception& error) {
    return Error(Code::kIo, error.what());
  }
}

}  // namespace

Batcher::Batcher(BatchOptions options, Metrics& metrics, const std::function<void()>& started)
    : options_(options), metrics_(metrics) {
  for (std::size_t i = 0; i < std::max<std::size_t>(options_.threads, 1); ++i) {
    threads_.emplace_back([this, started](const std::stop_token& stop) {
      if (started) started();
      work(stop);
    });
  }
}

Batcher::~Batcher() {
  for (std::jthread& thread : threads_) thread.request_stop();
  changed_.notify_all();
}

bool Batcher::submit(BatchJob& job) {
  {
    const std::lock_guard lock(mutex_);
    if (queue_.size() >= options_.queue) return false;
    queue_.push_back(std::move(job));
  }
  metrics_.queued(1);
  changed_.notify_one();
  return true;
}

void Batcher::work(const std::stop_token& stop) {
  while (true) {
    std::vector<BatchJob> jobs = take(stop);
    if (jobs.empty()) return;
    metrics_.queued(-static_cast<std::int64_t>(jobs.size()));
    run(std::move(jobs));
    const std::lock_guard lock(mutex_);
    --running_;
    // Others may wait for more requests only while something else is running.
    if (running_ == 0 && !queue_.empty()) changed_.notify_all();
  }
}

std::vector<BatchJob> Batcher::take(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, stop, [&] { return !queue_.empty(); });
    if (queue_.empty()) return {};
    const auto until = queue_.front().queued + options_.delay;
    changed_.wait_until(lock, stop, until, [&] {
      return queue_.empty() || running_ == 0 || queue_.size() >= options_.size;
    });
    if (queue_.empty()) continue;
    std::vector<BatchJob> jobs;
    const LoadedModel* const model = queue_.front().model.get();
    while (!queue_.empty() && jobs.size() < options_.size && queue_.front().model.get() == model) {
      jobs.push_back(std::move(queue_.front()));
      queue_.pop_front();
    }
    ++running_;
    if (!queue_.empty()) changed_.notify_one();
    return jobs;
  }
}

void Batcher::run(std::vector<BatchJob> jobs) {
  const Model& model = *jobs.front().model->model;
  const ModelInfo& info = model.info();
  std::vector<Samples> samples(jobs.size());
  std::vector<std::size_t> left;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const auto decoded = guarded([&] { return jobs[i].task->decode(info, samples[i]); });
    if (decoded) {
      left.push_back(i);
    } else {
      jobs[i].done(errorReply(decoded.error()));
    }
  }
  while (!left.empty()) {
    // Those of one shape; most often all.
    std::vector<std::size_t> same;
    std::vector<const Samples*> parts;
    const std::vector<std::int64_t>& shape = samples[left.front()].shape;
    std::erase_if(left, [&](std::size_t i) {
      if (samples[i].shape != shape) return false;
      same.push_back(i);
      parts.push_back(&samples[i]);
      return true;
    });
    std::int64_t rows = 0;
    for (const Samples* part : parts) rows += part->rows;
    metrics_.batchRun(same.size(), rows);
    const auto reply = [&](std::size_t i, const Predictions& predictions) {
      auto made =
          guarded([&]() -> Result<HttpReply> { return jobs[i].task->encode(info, predictions); });
      jobs[i].done(made ? *std::move(made) : errorReply(made.error()));
    };
    const auto all = guarded([&] { return model.run(parts); });
    if (all) {
      std::int64_t first = 0;
      for (const std::size_t i : same) {
        reply(i, same.size() == 1 ? *all : partOf(*all, first, samples[i].rows));
        first += samples[i].rows;
      }
      continue;
    }
    // One that the model rejects must not fail the others.
    for (const std::size_t i : same) {
      if (same.size() == 1) {
        jobs[i].done(errorReply(all.error()));
        continue;
      }
      const Samples* const part = &samples[i];
      const auto one = guarded([&] { return model.run(std::span(&part, 1)); });
      if (one) {
        reply(i, *one);
      } else {
        jobs[i].done(errorReply(one.error()));
      }
    }
  }
}

}  // namespace dure::serve
