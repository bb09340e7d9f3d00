#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "backend/kubernetes/names.h"
#include "gang/journal.h"
#include "kube/client.h"
#include "net/asio.h"

// The record of a run in the API server: ConfigMaps, which outlive every pod.
//
//   NAME-N              the job as it is run; annotated by who wants the run to stop
//   NAME-N-journal-I    what was decided, one entry a key; each manager begins a new one
//   NAME-N-metrics      what the first rank reported, thinned out
//   NAME-N-folder-I     the packed folder of the programs, in pieces
namespace dure::kubernetes {

struct KubeRecord {
  KubeRun run;
  nlohmann::json object;  // the ConfigMap
  std::string job;        // YAML
  std::vector<gang::Entry> entries;
};

// All records of a namespace, the oldest first; without their entries.
Result<std::vector<KubeRecord>> listRecords(kube::KubeClient& client, const std::string& name_space,
                                            const std::string& job = "");
Result<KubeRecord> readRecord(kube::KubeClient& client, const KubeRun& run);
// "train" is the newest run of that name, "train.2" the second. NotFound, with what there is.
Result<KubeRun> findRun(kube::KubeClient& client, const std::string& name_space,
                        const std::string& text);

// What the ConfigMaps of a run's journal say, in whatever order they come.
std::vector<gang::Entry> entriesOf(std::vector<nlohmann::json> parts);

// Lines of JSON, as ranks reported them: of the ConfigMap, and read from the cluster.
std::vector<std::string> metricsIn(const nlohmann::json& object);
Result<std::vector<std::string>> readMetrics(kube::KubeClient& client, const KubeRun& run);

// The packed folder: what is stored, in order, and put together again.
std::vector<nlohmann::json> folderObjects(const KubeRun& run, const std::string& archive);
Result<std::string> readFolder(kube::KubeClient& client, const KubeRun& run);

// The journal as one manager writes it: entries in the order in which they are appended, from a
// thread of its own, for as long as it takes while the API server is away.
class KubeJournal : public gang::Journal {
 public:
  // Reads what earlier managers wrote, and takes the pen from them: from then on their writes fail.
  static Result<std::unique_ptr<KubeJournal>> open(asio::io_context& loop, kube::KubeClient& client,
                                                   const KubeRun& run, const nlohmann::json& owner);
  ~KubeJournal() override;

  const std::vector<gang::Entry>& before() const { return before_; }
  void append(const std::vector<gang::Entry>& entries,
              std::function<void(const Status&)> written) override;
  // The same, waiting for it. Not while an append is under way.
  Status write(const std::vector<gang::Entry>& entries, const std::stop_token& stop = {});
  // Whether this manager still has the pen: false if another one has taken it, or the run was
  // deleted. Unavailable if that cannot be asked.
  Result<bool> isOurs() const;
  // Called before the end of the run is written, from the thread that writes: whoever reads of the
  // end finds what this has done.
  void beforeEnd(std::function<void()> prepare) { before_end_ = std::move(prepare); }
  // True if a write was refused because it was not.
  bool lost() const { return lost_; }

 private:
  KubeJournal(asio::io_context& loop, kube::KubeClient& client, KubeRun run, nlohmann::json owner);
  Status beginPart();

  asio::io_context& loop_;
  kube::KubeClient& client_;
  const KubeRun run_;
  const nlohmann::json owner_;
  const std::string token_;  // no other has this name
  std::vector<gang::Entry> before_;
  std::atomic<int> part_ = 0;
  int keys_ = 0;           // in this part, and
  std::size_t bytes_ = 0;  // what they make up
  std::atomic<bool> lost_{false};
  std::function<void()> before_end_;
  std::jthread writer_;
};

}  // namespace dure::kubernetes
