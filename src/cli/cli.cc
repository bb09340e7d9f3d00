#include "cli/cli.h"

#include <algorithm>
#include <cstdlib>
#include <ostream>

#include <CLI/CLI.hpp>

#include "base/log.h"
#include "cli/commands.h"

namespace dure::cli {
namespace {

constexpr const char* kAbout =
    "Dure puts one training job on many workers and brings home one model.\n\n"
    "  dure run job.yaml                     a job from a file\n"
    "  dure run --workers 2 -- ./program     one from the command line\n"
    "  dure env job.yaml --rank 1            what rank 1 would see\n"
    "  dure ps, dure logs -f NAME            what is going on\n";
constexpr const char* kFooter =
    "Exit codes: 0 done, 1 the job failed, 2 a mistake in the call or the file, 3 the "
    "infrastructure\n"
    "failed, 130 interrupted. `dure COMMAND --help` explains a command.\n"
    "DURE_LOG=debug, info, warn, error or off says what is logged on standard error.";

// For every command, and before it: what it decides and does can be followed then.
void addVerbose(CLI::App& app) {
  app.add_flag_callback(
      "--verbose",
      [] {
        setLogLevel(LogLevel::kDebug);
        setenv(kLogVariable, "debug", 1);  // for the agents
      },
      "Tell on standard error what is decided and done, as DURE_LOG=debug does");
}

}  // namespace

void Context::fail(const Error& error) {
  err << "dure: " << error.message() << "\n";
  code = error.code() == Code::kInvalid || error.code() == Code::kNotFound ||
                 error.code() == Code::kExists
             ? kMistake
             : kInfrastructureFailed;
}

void Context::mistake(const std::string& sentence) { fail(Error(Code::kInvalid, sentence)); }

std::optional<runs::RunStore> openStore(Context& context) {
  const auto root = runs::RunStore::defaultRoot();
  if (root) return std::optional<runs::RunStore>(std::in_place, *root);
  context.fail(root.error());
  return std::nullopt;
}

int run(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err) {
  Context context{.out = out, .err = err};
  // Behind "--" stands a program with flags of its own.
  const auto dashes = std::find(arguments.begin(), arguments.end(), "--");
  context.has_program = dashes != arguments.end();
  if (context.has_program) context.program.assign(dashes + 1, arguments.end());
  const auto first_word = std::find_if(
      arguments.begin(), dashes, [](const std::string& word) { return !word.starts_with('-'); });
  if (first_word != dashes) context.arguments.assign(first_word + 1, dashes);
  std::erase(context.arguments, "--verbose");  // carried out here

  CLI::App app(kAbout, "dure");
  app.footer(kFooter);
  app.set_version_flag("--version", "dure " DURE_VERSION);
  app.require_subcommand(0, 1);
  addCommands(app, context);
  addVerbose(app);
  for (CLI::App* command : app.get_subcommands({})) addVerbose(*command);
  if (const auto set = setLogLevelFromEnvironment(); !set) {
    context.fail(set.error());
    return context.code;
  }
  try {
    // CLI11 takes them from the back.
    app.parse(std::vector<std::string>(std::make_reverse_iterator(dashes), arguments.rend()));
    if (app.get_subcommands().empty()) out << app.help();
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {
      app.exit(error, out, err);
      return kDone;
    }
    const auto commands = app.get_subcommands();
    err << "dure: " << error.what() << "\n"
        << "Try: dure " << (commands.empty() ? "" : commands.front()->get_name() + " ")
        << "--help\n";
    return kMistake;
  } catch (const std::exception& error) {
    // A bug, or no memory left: whoever waits for us still gets an exit code.
    err << "dure: " << error.what() << "\n";
    return kInfrastructureFailed;
  }
  out.flush();
  return context.code;
}

}  // namespace dure::cli
