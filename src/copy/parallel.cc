#include "copy/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace dure::copy {
namespace {

constexpr unsigned kMostCopyThreads = 4;

Status withoutThrowing(const std::function<Status(std::size_t)>& work, std::size_t number) {
  try {
    return work(number);
  } catch (const std::exception& error) {
    return Error(Code::kUnavailable, error.what());
  }
}

}  // namespace

std::size_t threadCount() {
  return std::clamp(std::thread::hardware_concurrency(), 1u, kMostCopyThreads);
}

Status forEachInParallel(std::size_t count, const std::function<Status(std::size_t)>& work) {
  std::atomic<std::size_t> next{0};
  std::atomic<bool> failed{false};
  std::mutex mutex;
  std::size_t first = count;  // guarded by mutex
  Status failure;             // guarded by mutex
  const auto run = [&] {
    for (std::size_t i = next++; i < count && !failed; i = next++) {
      Status done = withoutThrowing(work, i);
      if (done) continue;
      failed = true;
      const std::lock_guard lock(mutex);
      if (i >= first) continue;
      first = i;
      failure = std::move(done);
    }
  };
  {
    std::vector<std::jthread> others;
    for (std::size_t i = 1; i < threadCount() && i < count; ++i) others.emplace_back(run);
    run();
  }
  return failure;
}

}  // namespace dure::copy
