#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "backend/kubernetes/names.h"
#include "backend/kubernetes/run_objects.h"
#include "kube/client.h"

namespace dure::kubernetes {

// The objects of one run, kept up to date by watching them: nothing is asked of the API server
// while nothing happens. Each call is from one thread.
class RunWatch {
 public:
  RunWatch(kube::KubeClient& client, KubeRun run);
  ~RunWatch();

  // Waits for news, but no longer than this. The state as it is known then, if it has changed since
  // the last call, and all of it has been read.
  std::optional<RunObjects> next(std::chrono::milliseconds patience);
  // Why something cannot be watched now; it is tried on and on.
  std::optional<Error> trouble();

 private:
  // What there is of one kind, by name.
  struct Part {
    kube::KubeKind kind;
    std::string labels;
    std::map<std::string, nlohmann::json> objects;
    bool known = false;
    std::optional<Error> trouble;
    std::jthread thread;
  };

  void watch(Part& part, const std::stop_token& stop);
  void change(const std::function<void()>& what);

  kube::KubeClient& client_;
  const KubeRun run_;
  std::mutex mutex_;  // of all below
  std::condition_variable news_;
  bool changed_ = false;
  Part jobs_;
  Part records_;
  Part pods_;
};

}  // namespace dure::kubernetes
