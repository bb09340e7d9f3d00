#include "cli/job_arguments.h"

#include <ostream>

#include <CLI/CLI.hpp>

#include "base/text.h"

namespace dure::cli {

void JobArguments::addTo(CLI::App& command) {
  command.add_option("job", file, "The job file; - reads it from standard input")
      ->option_text("JOB.yaml");
  command
      .add_option(
          "--set", sets,
          "Override any field of the job: --set train.epochs=5, --set 'workers={min: 2, max: 4}'")
      ->option_text("FIELD=VALUE")
      ->allow_extra_args(false);
  command.add_option("--name", name, "Name of the run")->option_text("NAME");
  command.add_option("-w,--workers", workers, "How many workers")->option_text("N");
  command
      .add_option("-s,--strategy", strategy,
                  "How processes find each other: " + join(spec::strategyWords(), ", "))
      ->option_text("NAME");
  command.add_option("-p,--processes", processes, "Processes of each worker")->option_text("N");
  command.add_option("-e,--env", env, "Set a variable of the program")
      ->option_text("KEY=VALUE")
      ->allow_extra_args(false);
}

spec::Loaded JobArguments::load(const Context& context) const {
  std::vector<spec::Override> overrides;
  std::vector<spec::Problem> problems;
  const auto add = [&](const std::string& flag, const std::string& path, const std::string& value) {
    if (!value.empty()) overrides.push_back({flag, path, value});
  };
  add("--name", "name", name);
  add("--workers", "workers", workers);
  add("--strategy", "strategy", strategy);
  add("--processes", "processes", processes);
  const auto pairs = [&](const std::string& flag, const std::vector<std::string>& list,
                         const std::string& prefix) {
    for (const std::string& pair : list) {
      const std::size_t equals = pair.find('=');
      if (equals == std::string::npos || equals == 0) {
        problems.push_back({.file = flag, .message = "must be NAME=VALUE, got \"" + pair + "\""});
        continue;
      }
      const std::string key = pair.substr(0, equals);
      overrides.push_back({flag + " " + key, prefix + key, pair.substr(equals + 1)});
    }
  };
  overrides.insert(overrides.end(), others.begin(), others.end());
  pairs("--env", env, "env.");
  pairs("--set", sets, "");
  if (context.has_program) overrides.push_back({"--", "program.command", context.program});
  if (!problems.empty()) return spec::Loaded{.job = {}, .problems = std::move(problems)};
  return file.empty() ? spec::loadJobOverrides(overrides) : spec::loadJobFile(file, overrides);
}

bool reportProblems(Context& context, const spec::Loaded& loaded) {
  for (const spec::Problem& problem : loaded.problems) context.err << problem.text() << "\n";
  if (!loaded.ok()) context.code = kMistake;
  return loaded.ok();
}

}  // namespace dure::cli
