#include <memory>
#include <ostream>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <fmt/core.h>

#include "backend/kubernetes/cluster_inventory.h"
#include "backend/kubernetes/objects.h"
#include "backend/kubernetes/run_creation.h"
#include "cli/commands.h"
#include "cli/job_arguments.h"
#include "cli/local_run.h"
#include "cli/where_arguments.h"
#include "gang/environment.h"
#include "gang/layout.h"

namespace dure::cli {
namespace {

struct EnvArguments {
  JobArguments job;
  std::optional<int> rank;
  bool json = false;
  WhereArguments where;
};

Result<Outlook> outlookThere(kube::KubeClient& client, const spec::Job& job) {
  const auto run = kubernetes::nextRun(client, job.name);
  if (!run) return run.error();
  gang::Layout layout{.workers = job.workers.max};
  if (job.gpus > 0) {
    const auto inventory = kubernetes::readInventory(client, job.nodes);
    if (!inventory) return inventory.error();
    const auto placed = plan::place(plan::makeRequest(job), *inventory);
    if (const auto* shortage = std::get_if<plan::Shortage>(&placed)) {
      return Error(Code::kUnavailable, shortage->message());
    }
    layout = gang::layoutOf(job, std::get<plan::Placement>(placed));
  }
  return Outlook{kubernetes::siteOf(*run, job), layout};
}

void envCommand(Context& context, const EnvArguments& arguments) {
  const spec::Loaded loaded = arguments.job.load(context);
  if (!reportProblems(context, loaded)) return;
  const spec::Job& job = loaded.job;
  Result<Outlook> outlook = Error(Code::kUnavailable, "");
  if (arguments.where.onKubernetes()) {
    const auto runs = arguments.where.openCluster(context);
    if (!runs) return;
    outlook = outlookThere(runs->client(), job);
  } else {
    const auto store = openStore(context);
    if (!store) return;
    outlook = surveyLocal(*store, job, store->next(job.name));
  }
  if (!outlook) return context.fail(outlook.error());
  const gang::Roster roster = gang::makeRoster(job, outlook->layout);
  if (arguments.rank && (*arguments.rank < 0 || *arguments.rank >= roster.world)) {
    return context.mistake(fmt::format("--rank: there are ranks 0 to {}", roster.world - 1));
  }
  nlohmann::json all = nlohmann::json::array();
  for (const gang::Task& task : roster.tasks) {
    for (int process = 0; process < std::max(1, task.processes); ++process) {
      const bool ranked = task.processes > 0;
      const int rank = task.first_rank + process;
      if (arguments.rank && (!ranked || rank != *arguments.rank)) continue;
      const gang::Environment env =
          gang::environmentOf(job, roster, outlook->site, task, process, 1);
      if (arguments.json) {
        nlohmann::json entry = {{"task", task.name()}, {"env", env}};
        if (ranked) entry["rank"] = rank;
        all.push_back(entry);
        continue;
      }
      if (!arguments.rank) {
        context.out << (ranked ? fmt::format("# rank {} ({})\n", rank, task.name())
                               : fmt::format("# {}\n", task.name()));
      }
      for (const auto& [name, value] : env) context.out << name << "=" << value << "\n";
    }
  }
  if (arguments.json) context.out << all.dump(2) << "\n";
}

}  // namespace

void addEnv(CLI::App& app, Context& context) {
  auto arguments = std::make_shared<EnvArguments>();
  CLI::App* command = app.add_subcommand(
      "env", "Print the variables that each rank would get, as KEY=VALUE; nothing starts");
  arguments->job.addTo(*command);
  command->add_option("--rank", arguments->rank, "Of this rank only")->option_text("N");
  command->add_flag("--json", arguments->json, "For programs");
  arguments->where.addTo(*command);
  command->callback([&context, arguments] { envCommand(context, *arguments); });
}

}  // namespace dure::cli
