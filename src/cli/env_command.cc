#include <memory>
#include <ostream>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <fmt/core.h>

#include "cli/command.h"
#include "cli/job_arguments.h"
#include "cli/local_run.h"
#include "launch/environment.h"

namespace dure::cli {
namespace {

struct EnvArguments {
  JobArguments job;
  std::optional<int> rank;
  bool json = false;
};

void envCommand(Context& context, const EnvArguments& arguments) {
  const Loaded loaded = arguments.job.load(context);
  if (!reportProblems(context, loaded)) return;
  const auto store = openStore(context);
  if (!store) return;
  const Job& job = loaded.job;
  const auto site = surveyLocal(*store, job, store->next(job.name));
  if (!site) return context.fail(site.error());
  const Roster roster = makeRoster(job, job.workers.max);
  if (arguments.rank && (*arguments.rank < 0 || *arguments.rank >= roster.world)) {
    return context.mistake(fmt::format("--rank: there are ranks 0 to {}", roster.world - 1));
  }
  nlohmann::json all = nlohmann::json::array();
  for (const Task& task : roster.tasks) {
    for (int process = 0; process < std::max(1, task.processes); ++process) {
      const bool ranked = task.processes > 0;
      const int rank = task.first_rank + process;
      if (arguments.rank && (!ranked || rank != *arguments.rank)) continue;
      const Environment env = environmentOf(job, roster, *site, task, process, 1);
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
  command->callback([&context, arguments] { envCommand(context, *arguments); });
}

}  // namespace dure::cli
