#include "cli/cli.h"

#include <algorithm>
#include <ostream>

#include <CLI/CLI.hpp>

#include "cli/command.h"

namespace dure::cli {
namespace {

constexpr const char* kAbout =
    "Dure puts one training job on many workers and brings home one model.\n\n"
    "  dure run job.yaml                     a job from a file\n"
    "  dure run --workers 2 -- ./program     one from the command line\n"
    "  dure env job.yaml --rank 1            what rank 1 would see\n"
    "  dure ps, dure logs -f NAME            what is going on\n";
constexpr const char* kFooter =
    "Exit codes: 0 done, 1 the job failed, 2 a mistake in the call or the file, 3 the place it "
    "runs\n"
    "failed, 130 interrupted. `dure COMMAND --help` explains a command.";

}  // namespace

void Context::fail(const Error& error) {
  err << "dure: " << error.message() << "\n";
  code = error.code() == Code::kInvalid || error.code() == Code::kNotFound ||
                 error.code() == Code::kExists
             ? kMistake
             : kPlaceFailed;
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

  CLI::App app(kAbout, "dure");
  app.footer(kFooter);
  app.set_version_flag("--version", "dure " DURE_VERSION);
  app.require_subcommand(0, 1);
  addRun(app, context);
  addCheck(app, context);
  addEnv(app, context);
  addPlan(app, context);
  addRender(app, context);
  addPs(app, context);
  addDescribe(app, context);
  addLogs(app, context);
  addStop(app, context);
  addRm(app, context);
  addFetch(app, context);
  addCoordinate(app, context);
  addSchema(app, context);
  addCompletion(app, context);
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
    // A bug, or no memory left: whoever waits for us is told all the same.
    err << "dure: " << error.what() << "\n";
    return kPlaceFailed;
  }
  out.flush();
  return context.code;
}

}  // namespace dure::cli
