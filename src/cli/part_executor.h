#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <set>
#include <string>

#include "base/fd.h"
#include "cli/command.h"
#include "pipeline/executor.h"
#include "runs/run_store.h"

namespace dure::cli {

// Parts of a pipeline, each with a record of its own in that of the pipeline. A process of ours is
// in charge of each; it dies with this one, unless it is a service's. Where the part runs is the
// affair of those who derive from it.
class PartExecutor : public pipeline::Executor {
 public:
  explicit PartExecutor(const std::string& record) : parts_(record) {}

  Result<std::string> start(const pipeline::Attempt& attempt) override;
  Status resume(const pipeline::Attempt& attempt, const std::string& run) override;
  pipeline::Progress look(const std::string& part) override;
  void stop(const std::string& part, bool at_once) override;
  std::string reportOf(const std::string& run) const override;

  // Whether what runs for a part of this kind outlives a process of the pipeline that dies.
  virtual bool outlives(pipeline::StepKind kind) const = 0;
  // Ends whatever an earlier process has left of the parts, but these runs.
  virtual Status endStrays(const std::set<std::string>& keep) = 0;

  const runs::RunStore& parts() const { return parts_; }

 protected:
  // Carries out an attempt as this run, or goes on with it. In a process of its own; its exit code.
  virtual int carryOut(Context& context, const pipeline::Attempt& attempt, const runs::RunId& run,
                       bool again) = 0;

  struct Child {
    std::optional<pid_t> pid;  // nothing: an earlier process has started it
    runs::RunId run;
    Fd words;  // what it has to say
    pipeline::StepKind kind = pipeline::StepKind::kCommand;
    int port = 0;
    std::string path;
    bool ready = false;
  };

  // The process in charge of a run dies with the one that has started it, or soon after.
  void waitUntilNobodyIsInCharge(const runs::RunId& run) const;

  runs::RunStore parts_;
  std::map<std::string, Child> children_;  // by part

 private:
  Result<Child> launch(const pipeline::Attempt& attempt, const runs::RunId& run, bool again);
  pipeline::Progress ended(const Child& child, int wait_status) const;
  bool answers(Child& child) const;
};

}  // namespace dure::cli
