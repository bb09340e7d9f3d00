#include "serve/metrics.h"

#include <algorithm>

#include <fmt/core.h>

namespace dure::serve {
namespace {

void metricHead(std::string& out, const char* name, const char* type, const char* help) {
  fmt::format_to(std::back_inserter(out), "# HELP {0} {2}\n# TYPE {0} {1}\n", name, type, help);
}

// As Prometheus wants a label's value.
std::string labelValue(const std::string& text) {
  std::string made;
  for (const char c : text) {
    if (c == '\\' || c == '"') made += '\\';
    made += c == '\n' ? ' ' : c;
  }
  return made;
}

}  // namespace

template <std::size_t Count>
void Metrics::Histogram<Count>::add(const std::array<double, Count>& bounds, double value,
                                    std::uint64_t units) {
  const auto place = static_cast<std::size_t>(
      std::lower_bound(bounds.begin(), bounds.end(), value) - bounds.begin());
  counts[place].fetch_add(1, std::memory_order_relaxed);
  sum.fetch_add(units, std::memory_order_relaxed);
}

template <std::size_t Count>
void Metrics::Histogram<Count>::print(std::string& out, const char* name,
                                      const std::array<double, Count>& bounds, double unit) const {
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < Count; ++i) {
    total += counts[i].load(std::memory_order_relaxed);
    fmt::format_to(std::back_inserter(out), "{}_bucket{{le=\"{}\"}} {}\n", name, bounds[i], total);
  }
  total += counts[Count].load(std::memory_order_relaxed);
  fmt::format_to(std::back_inserter(out),
                 "{0}_bucket{{le=\"+Inf\"}} {1}\n{0}_sum {2}\n{0}_count {1}\n", name, total,
                 static_cast<double>(sum.load(std::memory_order_relaxed)) * unit);
}

void Metrics::requestDone(int status, std::chrono::nanoseconds took) {
  codes_[static_cast<std::size_t>(std::clamp(status, 0, 599))].fetch_add(1,
                                                                         std::memory_order_relaxed);
  latency_.add(kLatencies, std::chrono::duration<double>(took).count(),
               static_cast<std::uint64_t>(took.count() / 1000));
}

void Metrics::batchRun(std::size_t requests, std::int64_t rows) {
  batches_.add(kSizes, static_cast<double>(requests), requests);
  rows_.add(kSizes, static_cast<double>(rows), static_cast<std::uint64_t>(rows));
}

std::string Metrics::text(const std::map<std::string, std::int64_t>& versions) const {
  std::string out;
  metricHead(out, "dure_requests_total", "counter", "Requests that were answered, by status code.");
  for (std::size_t code = 0; code < codes_.size(); ++code) {
    const std::uint64_t count = codes_[code].load(std::memory_order_relaxed);
    if (count > 0)
      fmt::format_to(std::back_inserter(out), "dure_requests_total{{code=\"{}\"}} {}\n", code,
                     count);
  }
  metricHead(out, "dure_request_seconds", "histogram",
             "From the last byte of a request to its reply.");
  latency_.print(out, "dure_request_seconds", kLatencies, 1e-6);
  metricHead(out, "dure_batch_requests", "histogram", "Requests that a model ran on together.");
  batches_.print(out, "dure_batch_requests", kSizes, 1);
  metricHead(out, "dure_batch_rows", "histogram", "Samples that a model ran on together.");
  rows_.print(out, "dure_batch_rows", kSizes, 1);
  metricHead(out, "dure_queue_depth", "gauge", "Requests that wait for a model.");
  fmt::format_to(std::back_inserter(out), "dure_queue_depth {}\n", queue_.load());
  metricHead(out, "dure_connections", "gauge", "Open connections.");
  fmt::format_to(std::back_inserter(out), "dure_connections {}\n", connections_.load());
  metricHead(out, "dure_model_version", "gauge",
             "How many files of a model were loaded so far; 0: it waits for the first.");
  for (const auto& [name, version] : versions) {
    fmt::format_to(std::back_inserter(out), "dure_model_version{{model=\"{}\"}} {}\n",
                   labelValue(name), version);
  }
  return out;
}

}  // namespace dure::serve
