#pragma once

#include <map>
#include <string>
#include <utility>

#include "base/files.h"
#include "runs/runs.h"

namespace dure::runs {

// Writes what is learnt of a run that goes on elsewhere into a record of this machine: events and
// logs, so that whatever reads records reads this one, also when its pods are gone.
class RunMirror : public Follower {
 public:
  // Begins anew: followers are told everything from the beginning.
  static Result<RunMirror> open(const RunPaths& paths);

  void seen(const RunView& run) override;
  void output(int generation, int rank, std::string_view lines) override;
  void trouble(const std::string&) override {}
  void tick() override {}

  // What could not be written, the first time.
  const Status& status() const { return status_; }

 private:
  RunMirror(RunPaths paths, AppendFile events)
      : paths_(std::move(paths)), events_(std::move(events)) {}
  void note(Status written);

  const RunPaths paths_;
  AppendFile events_;
  std::size_t told_ = 0;  // of its entries
  std::map<std::pair<int, int>, AppendFile> logs_;
  Status status_;
};

}  // namespace dure::runs
