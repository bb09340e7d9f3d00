#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace dure::serve {

// What Prometheus reads at /metrics. May be used from several threads at once.
class Metrics {
 public:
  void requestDone(int status, std::chrono::nanoseconds took);
  void batchRun(std::size_t requests, std::int64_t rows);
  void queued(std::int64_t change) { queue_.fetch_add(change, std::memory_order_relaxed); }
  void connected(std::int64_t change) { connections_.fetch_add(change, std::memory_order_relaxed); }
  std::int64_t connections() const { return connections_.load(std::memory_order_relaxed); }

  // In Prometheus' text format; `versions` has the version of every model that is loaded.
  std::string text(const std::map<std::string, std::int64_t>& versions) const;

 private:
  static constexpr std::array<double, 14> kLatencies{
      0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10};
  static constexpr std::array<double, 10> kSizes{1, 2, 4, 8, 16, 32, 64, 128, 256, 1024};

  template <std::size_t Count>
  struct Histogram {
    std::array<std::atomic<std::uint64_t>, Count + 1> counts{};
    std::atomic<std::uint64_t> sum{0};  // in the smallest unit: microseconds, rows

    void add(const std::array<double, Count>& bounds, double value, std::uint64_t units);
    void print(std::string& out, const char* name, const std::array<double, Count>& bounds,
               double unit) const;
  };

  std::array<std::atomic<std::uint64_t>, 600> codes_{};
  Histogram<kLatencies.size()> latency_;
  Histogram<kSizes.size()> batches_;
  Histogram<kSizes.size()> rows_;
  std::atomic<std::int64_t> queue_{0};
  std::atomic<std::int64_t> connections_{0};
};

}  // namespace dure::serve
