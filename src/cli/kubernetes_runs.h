#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/kubernetes/names.h"
#include "kube/client.h"
#include "runs/run_reader.h"

// The runs of a namespace, as people see them: the same as those of this machine.
namespace dure::cli {

Result<std::vector<RunView>> readKubeRuns(KubeClient& client, const std::string& name_space);
Result<RunView> readKubeRun(KubeClient& client, const KubeRun& run);

// The run of this job that is going on, if there is one.
Result<std::optional<KubeRun>> findActiveRun(KubeClient& client, const std::string& name_space,
                                             const std::string& job);
// Why the manager of a run that has not begun does not start.
struct ManagerProblem {
  std::string why;        // empty: it is about to
  bool hopeless = false;  // and will not, unless something is done about it
};
ManagerProblem managerProblem(KubeClient& client, const KubeRun& run);

// Asks the run to end, and returns when it has.
Status stopKubeRun(KubeClient& client, const KubeRun& run, bool at_once);
// Removes every object of the run, and returns when its pods and its records are gone. Unavailable,
// with what is left, if that takes too long.
Status removeKubeRun(KubeClient& client, const KubeRun& run);

// Reads what the ranks of a run print, from its pods.
class PodLogs {
 public:
  // Whole lines of one rank. Called by one thread at a time, but by any.
  using Take = std::function<void(int generation, int rank, std::string_view lines)>;

  PodLogs(KubeClient& client, KubeRun run, std::optional<int> generation, Take take);
  ~PodLogs();

  // Begins to follow the pods that are there now and were not before. With `follow` each is read
  // until it ends, else as far as it has come. Denied if that is not allowed.
  Status look(bool follow);
  // Waits until all that were begun have been read, but no longer than this.
  void drain(Duration patience);

 private:
  struct Stream;
  void read(Stream& stream, bool follow, const std::stop_token& stop);
  // Whether the pod of a stream that has ended has, too.
  bool hasEnded(const Stream& stream, const std::stop_token& stop);

  KubeClient& client_;
  const KubeRun run_;
  const std::optional<int> generation_;
  const Take take_;
  std::mutex mutex_;                                        // of take_ and
  std::optional<Error> denied_;                             // why nothing can be read
  std::map<std::string, std::unique_ptr<Stream>> streams_;  // by pod
};

}  // namespace dure::cli
