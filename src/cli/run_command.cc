#include <memory>
#include <ostream>

#include <CLI/CLI.hpp>

#include "cli/commands.h"
#include "cli/job_arguments.h"
#include "cli/kubernetes_run.h"
#include "cli/local_run.h"
#include "cli/where_arguments.h"

namespace dure::cli {
namespace {

struct RunArguments {
  JobArguments job;
  WhereArguments where;
  bool detach = false;
  std::string resume;
};

void runCommand(Context& context, const RunArguments& arguments) {
  auto store = openStore(context);
  if (!store) return;
  if (!arguments.resume.empty() && arguments.where.onKubernetes()) {
    return context.mistake(
        "--resume is for runs of this machine; on Kubernetes a run whose manager "
        "died goes on by itself");
  }
  if (!arguments.resume.empty()) {
    if (!arguments.job.adHoc() || context.has_program) {
      return context.mistake("--resume continues a run as it is: it takes no job file or program");
    }
    context.code = resumeLocal(context, *store, arguments.resume, arguments.detach);
    return;
  }
  if (arguments.job.adHoc() && !context.has_program && arguments.job.sets.empty()) {
    return context.mistake(
        "nothing to run: give a job file (dure run JOB.yaml) or a program (dure run -- python3 "
        "train.py)");
  }
  const spec::Loaded loaded = arguments.job.load(context);
  if (!reportProblems(context, loaded)) return;
  const bool unnamed = arguments.job.adHoc() && arguments.job.name.empty();
  if (arguments.where.onKubernetes()) {
    const auto runs = arguments.where.openCluster(context);
    if (!runs) return;
    context.code = runOnKubernetes(context, *runs, loaded.job,
                                   {.detach = arguments.detach, .ad_hoc = unnamed});
    return;
  }
  context.code =
      runLocal(context, *store, loaded.job, {.detach = arguments.detach, .ad_hoc = unnamed});
}

}  // namespace

void addRun(CLI::App& app, Context& context) {
  auto arguments = std::make_shared<RunArguments>();
  CLI::App* command = app.add_subcommand("run", "Run a job to its end");
  command->footer(
      "The program stands behind --, with flags of its own:\n"
      "  dure run --workers 2 --strategy torch -- python3 train.py --epochs 3\n"
      "What its ranks print is shown with the rank in front, and kept: dure logs NAME.\n"
      "Ctrl-C stops all ranks gently, a second one at once.");
  arguments->job.addTo(*command);
  arguments->where.addTo(*command);
  command->add_flag("-d,--detach", arguments->detach, "Return as soon as the run has begun");
  command->add_option("--resume", arguments->resume, "Go on with a run whose dure process has died")
      ->option_text("RUN");
  command->callback([&context, arguments] { runCommand(context, *arguments); });
}

}  // namespace dure::cli
