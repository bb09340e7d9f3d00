#pragma once

#include "runs/run_store.h"
#include "runs/runs.h"

namespace dure::runs {

// The runs of this person on this machine.
class LocalRuns : public Runs {
 public:
  explicit LocalRuns(RunStore store) : store_(std::move(store)) {}

  Result<std::vector<RunView>> list() override;
  Result<RunId> find(const std::string& text) override;
  Result<RunView> read(const RunId& id) override;
  Result<RunView> follow(const RunId& id, Follower& follower, const Wait& wait) override;
  Status logs(const RunId& id, const LogQuery& query, const Lines& lines,
              const Wait& wait) override;
  Status askToStop(const RunId& id, bool at_once) override;
  Result<Stopped> stop(const RunId& id, bool at_once, const Wait& wait) override;
  Status remove(const RunId& id, bool force, const Wait& wait) override;
  Result<std::string> bringHome(const RunId& id, const std::string& folder,
                                const Wait& wait) override;
  Status fetch(const RunId& id, const std::string& path, bundle::FileReceiver& files,
               const Wait& wait) override;

  RunStore& store() { return store_; }

 private:
  Status end(const RunId& id, bool at_once, const Wait& wait);
  // Whether somebody is in charge of it, or of a run that it has started.
  bool goesOn(const RunId& id) const;

  RunStore store_;
};

}  // namespace dure::runs
