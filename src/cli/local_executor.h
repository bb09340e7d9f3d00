#pragma once

#include <set>
#include <string>

#include "cli/part_executor.h"

namespace dure::cli {

// Parts of a pipeline as runs of this machine.
class LocalExecutor : public PartExecutor {
 public:
  LocalExecutor(runs::RunStore& store, runs::RunId id);

  Result<std::string> start(const pipeline::Attempt& attempt) override;
  Result<pipeline::Left> recover(const pipeline::Attempt& attempt, const std::string& run) override;
  bool outlives(pipeline::StepKind kind) const override {
    return kind == pipeline::StepKind::kService;
  }
  Status endStrays(const std::set<std::string>& keep) override;

 protected:
  int carryOut(Context& context, const pipeline::Attempt& attempt, const runs::RunId& run,
               bool again) override;

 private:
  // An earlier run of the pipeline has left a service in the place of this one.
  Status endFormer(const std::string& part);

  runs::RunStore& store_;
  const runs::RunId id_;
};

}  // namespace dure::cli
