#pragma once

#include <fcntl.h>

#include <map>
#include <memory>
#include <utility>

#include "base/fd.h"
#include "coordinator/coordinator.h"
#include "gang/journal.h"
#include "runs/run_store.h"

namespace dure::runs {

// Writes the record of a run while it goes on: the journal, the metrics and the logs. What has been
// appended is readable at any moment, and a crash costs at most the line being written.
class RunWriter : public gang::Journal, public coordinator::Observer {
 public:
  static Result<std::unique_ptr<RunWriter>> open(const RunPaths& paths, const Clock& clock);

  void append(const std::vector<gang::Entry>& entries,
              std::function<void(const Status&)> written) override;
  Status append(const gang::Entry& entry);
  void entry(const gang::Entry&) override {}
  Status output(int generation, int rank, std::string_view lines) override;
  Status metric(int generation, int rank, std::string_view line) override;

 private:
  RunWriter(RunPaths paths, const Clock& clock, AppendFile events, AppendFile metrics)
      : paths_(std::move(paths)),
        clock_(clock),
        events_(std::move(events)),
        metrics_(std::move(metrics)),
        spare_(::open("/dev/null", O_RDONLY | O_CLOEXEC)) {}

  bool giveUpDescriptor();

  const RunPaths paths_;
  const Clock& clock_;
  AppendFile events_;
  AppendFile metrics_;
  int generation_ = 0;
  std::map<int, AppendFile> logs_;  // of this generation, by rank
  Fd spare_;                        // to be given up when there is no other
};

}  // namespace dure::runs
