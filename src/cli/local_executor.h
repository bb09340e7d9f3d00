#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <set>
#include <string>

#include "base/fd.h"
#include "pipeline/executor.h"
#include "runs/run_store.h"

namespace dure::cli {

// Parts of a pipeline as runs of this machine, with records of their own in that of the pipeline. A
// process of ours is in charge of each; it dies with this one, unless it is a service's.
class LocalExecutor : public pipeline::Executor {
 public:
  LocalExecutor(runs::RunStore& store, runs::RunId id);

  Result<std::string> start(const pipeline::Attempt& attempt) override;
  Status resume(const pipeline::Attempt& attempt, const std::string& run) override;
  pipeline::Progress look(const std::string& part) override;
  void stop(const std::string& part, bool at_once) override;
  Result<pipeline::Left> recover(const pipeline::Attempt& attempt, const std::string& run) override;

  // Ends whatever an earlier process has left of the parts, but these runs.
  Status endStrays(const std::set<std::string>& keep);

  const runs::RunStore& parts() const { return parts_; }

 private:
  struct Child {
    std::optional<pid_t> pid;  // nothing: an earlier process has started it
    runs::RunId run;
    Fd words;  // what it has to say
    pipeline::StepKind kind = pipeline::StepKind::kCommand;
    int port = 0;
    std::string path;
    bool ready = false;
  };
  Result<Child> launch(const pipeline::Attempt& attempt, const runs::RunId& run, bool again);
  pipeline::Progress ended(const Child& child, int wait_status) const;
  bool answers(Child& child) const;
  // An earlier run of the pipeline has left a service in the place of this one.
  Status endFormer(const std::string& part);

  runs::RunStore& store_;
  const runs::RunId id_;
  runs::RunStore parts_;
  std::map<std::string, Child> children_;
};

}  // namespace dure::cli
