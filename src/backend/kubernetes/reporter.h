#pragma once

#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "backend/kubernetes/names.h"
#include "coordinator/coordinator.h"
#include "kube/client.h"

namespace dure::kubernetes {

// Tells the cluster how a run goes on: events of its Job, so that `kubectl describe` shows what was
// decided, and the metrics of the first rank. From a thread of its own; what cannot be told now is
// told later, or never if there is too much of it: nothing depends on it.
class KubeReporter : public coordinator::Observer {
 public:
  KubeReporter(kube::KubeClient& client, KubeRun run, nlohmann::json job);
  ~KubeReporter() override;

  void entry(const gang::Entry& entry) override;
  Status output(int, int, std::string_view) override { return {}; }
  Status metric(int generation, int rank, std::string_view line) override;

  // Tells the metrics that are new. Returns when it has, or could not.
  void tellMetrics();
  // Tells what is left to be told, and ends.
  void finish();

 private:
  void work(const std::stop_token& stop);
  bool tellEvent(const gang::Entry& entry);
  bool sendMetrics();
  // All that is to be told of them.
  std::string metricsText();
  // What a manager before this one has told goes before what this one tells.
  bool takeUpMetrics();

  kube::KubeClient& client_;
  const KubeRun run_;
  const nlohmann::json job_;
  std::mutex mutex_;
  std::deque<gang::Entry> entries_;
  std::vector<std::string> metrics_;
  std::size_t every_ = 1;  // of so many reports one is kept
  std::size_t reports_ = 0;
  std::string last_;  // the newest report, kept or not
  bool changed_ = false;
  bool mute_ = false;        // events are not ours to write
  std::mutex sending_;       // held while metrics are sent; guards what follows
  bool made_ = false;        // the object of the metrics
  std::string unconfirmed_;  // what it was made of, if the reply was lost
  std::jthread worker_;
};

}  // namespace dure::kubernetes
