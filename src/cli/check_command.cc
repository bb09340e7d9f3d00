#include <memory>
#include <ostream>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <fmt/core.h>

#include "cli/commands.h"
#include "cli/job_arguments.h"
#include "gang/roster.h"

namespace dure::cli {
namespace {

struct CheckArguments {
  JobArguments job;
  bool json = false;
};

void checkCommand(Context& context, const CheckArguments& arguments) {
  const spec::Loaded loaded = arguments.job.load(context);
  if (arguments.json) {
    nlohmann::json problems = nlohmann::json::array();
    for (const spec::Problem& problem : loaded.problems) {
      problems.push_back({{"file", problem.file},
                          {"line", problem.line},
                          {"column", problem.column},
                          {"field", problem.field},
                          {"message", problem.message}});
    }
    context.out << nlohmann::json{{"ok", loaded.ok()}, {"problems", problems}}.dump(2) << "\n";
    context.code = loaded.ok() ? kDone : kMistake;
    return;
  }
  if (!reportProblems(context, loaded)) return;
  const spec::Job& job = loaded.job;
  const gang::Roster roster = gang::makeRoster(job, job.workers.max);
  context.out << fmt::format("{}: {}, {} task{}, {} rank{}\n", job.name,
                             spec::strategyName(job.strategy), roster.tasks.size(),
                             roster.tasks.size() == 1 ? "" : "s", roster.world,
                             roster.world == 1 ? "" : "s");
}

}  // namespace

void addCheck(CLI::App& app, Context& context) {
  auto arguments = std::make_shared<CheckArguments>();
  CLI::App* command =
      app.add_subcommand("check", "Say everything that is wrong with a job; nothing starts");
  arguments->job.addTo(*command);
  command->add_flag("--json", arguments->json, "For programs");
  command->callback([&context, arguments] { checkCommand(context, *arguments); });
}

}  // namespace dure::cli
