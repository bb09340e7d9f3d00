#include "cli/local_executor.h"

#include <filesystem>

#include "base/text.h"
#include "base/wait.h"
#include "cli/local_run.h"
#include "runs/leftovers.h"
#include "runs/local_runs.h"
#include "runs/run_reader.h"

namespace dure::cli {
namespace {

using namespace std::chrono_literals;

constexpr auto kPartEnds = 30s;

// Steps find the programs that lie beside this one, whatever PATH says.
std::string pathForSteps(const spec::Job& job) {
  const auto given = job.env.find("PATH");
  const char* inherited = std::getenv("PATH");
  std::string path = given != job.env.end() ? given->second
                     : inherited != nullptr ? inherited
                                            : "/usr/local/bin:/usr/bin:/bin";
  const std::string own = std::filesystem::path(agentProgram()).parent_path().string();
  for (const std::string& directory : split(path, ':')) {
    if (directory == own) return path;
  }
  return own + ":" + path;
}

}  // namespace

LocalExecutor::LocalExecutor(runs::RunStore& store, runs::RunId id)
    : PartExecutor(store.paths(id).directory), store_(store), id_(std::move(id)) {}

int LocalExecutor::carryOut(Context& context, const pipeline::Attempt& attempt,
                            const runs::RunId& run, bool again) {
  if (again) return resumeLocal(context, parts_, run.text(), false);
  spec::Job job = attempt.job;
  job.env["PATH"] = pathForSteps(job);
  return runLocal(context, parts_, job, {});
}

Result<std::string> LocalExecutor::start(const pipeline::Attempt& attempt) {
  if (attempt.kind == pipeline::StepKind::kService) {
    if (auto ended = endFormer(attempt.part); !ended) return std::move(ended).error();
  }
  return PartExecutor::start(attempt);
}

Result<pipeline::Left> LocalExecutor::recover(const pipeline::Attempt& attempt,
                                              const std::string& run) {
  const auto id = parts_.find(run);
  if (!id) return pipeline::Left::kNothing;
  if (attempt.kind == pipeline::StepKind::kService) {
    if (!parts_.coordinator(*id)) return pipeline::Left::kNothing;
    children_.insert_or_assign(attempt.part, Child{.pid = {},
                                                   .run = *id,
                                                   .words = {},
                                                   .kind = attempt.kind,
                                                   .port = attempt.port,
                                                   .path = attempt.path});
    return pipeline::Left::kRuns;
  }
  const runs::RunView view = runs::readRun(parts_, *id);
  // A command begins anew: nobody knows what it has left undone, or, after the end of its machine,
  // what of its output had reached the disk.
  if (attempt.kind != pipeline::StepKind::kJob) return pipeline::Left::kNothing;
  if (view.state.outcome == gang::Outcome::kSucceeded) return pipeline::Left::kSucceeded;
  return view.state.outcome ? pipeline::Left::kNothing : pipeline::Left::kResumable;
}

Status LocalExecutor::endStrays(const std::set<std::string>& keep) {
  for (const runs::RunId& run : parts_.list()) {
    if (keep.contains(run.text())) continue;
    waitUntilNobodyIsInCharge(run);
    auto owned = parts_.take(run);
    if (!owned) return std::move(owned).error();
    if (auto ended = runs::endLeftovers(owned->paths, kPartEnds); !ended) return ended;
  }
  return {};
}

Status LocalExecutor::endFormer(const std::string& part) {
  for (const runs::RunId& id : store_.list()) {
    // One that is going on has its services for itself.
    if (id.name != id_.name || id.number == id_.number || store_.coordinator(id)) continue;
    runs::LocalRuns former{runs::RunStore(store_.paths(id).directory)};
    for (const runs::RunId& run : former.store().list()) {
      if (run.name != part || !former.store().coordinator(run)) continue;
      auto stopped = former.stop(run, false, Wait(kPartEnds));
      if (!stopped) return std::move(stopped).error();
    }
  }
  return {};
}

}  // namespace dure::cli
