#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "backend/kubernetes/names.h"
#include "kube/client.h"

namespace dure::kubernetes {

// Reads what the ranks of a run print, from its pods: each over one connection, for as long as that
// lasts.
class PodLogs {
 public:
  // Whole lines of one rank. Called by one thread at a time, but by any.
  using Take = std::function<void(int generation, int rank, std::string_view lines)>;

  PodLogs(kube::KubeClient& client, KubeRun run, std::optional<int> generation, Take take);
  ~PodLogs();

  // These are the pods of the run now. Begins with those that were not there before: with `follow`
  // each is read until it ends, else as far as it has come. Denied if that is not allowed.
  Status see(const std::vector<nlohmann::json>& pods, bool follow);
  // Whether all that were begun have been read.
  bool done() const;

 private:
  struct Stream;
  std::unique_ptr<Stream> streamOf(const nlohmann::json& pod) const;
  void read(Stream& stream, bool follow, const std::stop_token& stop);
  // Whether the pod of a stream that has ended has, too.
  bool hasEnded(const Stream& stream, const std::stop_token& stop);

  kube::KubeClient& client_;
  const KubeRun run_;
  const std::optional<int> generation_;
  const Take take_;
  std::mutex take_mutex_;        // of take_
  std::mutex mutex_;             // of the next two
  std::optional<Error> denied_;  // why nothing can be read
  std::set<std::string> alive_;  // pods that have not ended
  std::condition_variable_any seen_;
  std::map<std::string, std::unique_ptr<Stream>> streams_;  // by pod
};

}  // namespace dure::kubernetes
