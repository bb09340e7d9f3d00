#include "cli/kubernetes_run.h"

#include <signal.h>

#include <algorithm>
#include <memory>
#include <ostream>
#include <utility>

#include <fmt/core.h>

#include "backend/kubernetes/run_creation.h"
#include "backend/kubernetes/run_objects.h"
#include "cli/follow_view.h"
#include "cli/outcome.h"
#include "cli/progress_bar.h"

namespace dure::cli {
namespace {

// Chooses another name if this one is in use and nobody chose it; false if the command has failed.
bool findName(Context& context, kube::KubeClient& client, spec::Job& job, bool ad_hoc) {
  const std::string wanted = job.name;
  for (int suffix = 2;; ++suffix) {
    const auto active = kubernetes::findActiveRun(client, client.access().name_space, job.name);
    if (!active) {
      context.fail(active.error());
      return false;
    }
    if (!*active) return true;
    if (!ad_hoc) {
      context.mistake(fmt::format(
          "{} is running already; stop it with `dure stop {} --on kubernetes`, or choose another "
          "--name",
          (*active)->text(), (*active)->text()));
      return false;
    }
    job.name = fmt::format("{}-{}", wanted, suffix);
  }
}

// Brings home what a run that has succeeded was for.
int bringHome(FollowView& view, runs::Runs& runs, const runs::RunId& id,
              const std::string& folder) {
  const auto path = runs.bringHome(id, folder, Wait());
  // As on this machine: whether a program writes it is its own affair.
  if (!path && path.error().code() == Code::kNotFound) {
    view.say("the output was not written: " + path.error().message());
    return kDone;
  }
  if (!path) {
    view.say(
        fmt::format("the output is still in the cluster: {}; try `dure fetch {} --on kubernetes`",
                    path.error().message(), id.text()));
    return kInfrastructureFailed;
  }
  view.say(fmt::format("wrote {}", *path));
  return kDone;
}

int follow(Context& context, runs::Runs& runs, const runs::RunId& id, const spec::Job& job) {
  const auto began = std::chrono::steady_clock::now();
  FollowView view(context, runs, id);
  const auto run = runs.follow(id, view, Wait());
  if (!run) {
    view.say(run.error().message());
    if (run.error().code() == Code::kNotFound) return kInterrupted;
    // What never could begin leaves nothing behind.
    if (run.error().code() == Code::kUnavailable) static_cast<void>(runs.remove(id, true, Wait()));
    return kInfrastructureFailed;
  }
  if (!run->state.outcome) {
    view.say(fmt::format("{} has lost its manager", id.text()));
    return kInfrastructureFailed;
  }
  const gang::Outcome outcome = *run->state.outcome;
  const auto took = std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now() - began);
  view.say(describeEnd(id.text(), outcome, run->state.reason, run->state.generation - 1, took));
  // Neither does what never could run.
  const bool ran =
      std::any_of(run->entries.begin(), run->entries.end(),
                  [](const gang::Entry& entry) { return entry.kind == gang::EntryKind::kRunning; });
  if (outcome == gang::Outcome::kInfrastructureFailed && !ran)
    static_cast<void>(runs.remove(id, true, Wait()));
  if (outcome == gang::Outcome::kSucceeded && !job.output.empty()) {
    return bringHome(view, runs, id, job.program.workdir);
  }
  return exitCode(outcome);
}

}  // namespace

int runOnKubernetes(Context& context, kubernetes::KubeRuns& runs, spec::Job job,
                    const KubernetesRunOptions& options) {
  kube::KubeClient& client = runs.client();
  if (auto checked = kubernetes::checkRun(client, job); !checked) {
    context.fail(checked.error());
    return context.code;
  }
  if (!findName(context, client, job, options.ad_hoc)) return context.code;
  countInterruptions();
  std::unique_ptr<ProgressBar> bar;
  std::string sending;
  const auto run = kubernetes::createRun(
      client, job, [] { return interruptions() > 0; },
      [&](const std::string& path, std::int64_t sent, std::int64_t of) {
        if (path != std::exchange(sending, path)) {
          bar.reset();
          context.err << fmt::format("dure: sending {} ({}) to the cluster, once\n", path,
                                     sizeText(static_cast<std::uint64_t>(of)))
                      << std::flush;
          bar = std::make_unique<ProgressBar>(context.err, "send");
        }
        static_cast<void>(
            bar->update(static_cast<std::uint64_t>(sent), static_cast<std::uint64_t>(of)));
      });
  bar.reset();
  if (!run) {
    context.fail(run.error());
    return interruptions() > 0 ? kInterrupted : context.code;
  }
  if (options.detach) {
    context.out << run->text() << "\n";
    return kDone;
  }
  signal(SIGPIPE, SIG_IGN);
  return follow(context, runs, {.name = run->job, .number = run->number}, job);
}

}  // namespace dure::cli
