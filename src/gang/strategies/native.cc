// Dure's own trainer: a file says what to train, so it needs no program.
#include "base/rank_names.h"
#include "gang/strategies/strategies.h"
#include "spec/print.h"

namespace dure::gang {
namespace {

class Native : public LaunchStrategy {
 public:
  // The trainer will not think better of data or a model that it refused.
  bool isHopeless(int exit_code) const override { return exit_code == kTrainerRefused; }

  std::vector<std::string> command(const spec::Job& /*job*/, const Site& site) const override {
    return {site.trainer};
  }

  void addVariables(Environment& env, const ProcessView& process) const override {
    addThreads(env, process);
  }

  TaskFiles files(const spec::Job& job, const Roster& /*roster*/,
                  const Task& /*task*/) const override {
    return {{task_files::kJob, spec::printJob(job)}};
  }
};

}  // namespace

const LaunchStrategy& nativeStrategy(const spec::Job& /*job*/) {
  static const Native native;
  return native;
}

}  // namespace dure::gang
