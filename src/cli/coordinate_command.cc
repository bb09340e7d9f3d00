#include <cstdlib>
#include <memory>

#include <CLI/CLI.hpp>

#include "backend/kubernetes/manager.h"
#include "cli/commands.h"
#include "cli/outcome.h"
#include "cli/terminal_view.h"

namespace dure::cli {
namespace {

// Plain lines, for the log of a pod.
class LogView : public kubernetes::ManagerView {
 public:
  explicit LogView(Context& context) : view_(context.out, context.err, clock_, {}) {}

  void entry(const gang::Entry& entry) override { view_.entry(entry); }
  Status output(int generation, int rank, std::string_view lines) override {
    return view_.output(generation, rank, lines);
  }
  Status metric(int generation, int rank, std::string_view line) override {
    return view_.metric(generation, rank, line);
  }
  void say(const std::string& sentence) override { view_.say(sentence); }

 private:
  SystemClock clock_;
  TerminalView view_;
};

void coordinateCommand(Context& context, const std::string& name_space, const std::string& text) {
  auto access = kube::accessInPod();
  if (!access) return context.fail(access.error());
  kube::KubeClient client(*std::move(access));
  const std::size_t dot = text.rfind('.');
  const int number = dot == std::string::npos ? 0 : std::atoi(text.c_str() + dot + 1);
  if (number <= 0) return context.mistake("the run must be NAME.NUMBER");
  LogView view(context);
  const auto outcome = kubernetes::manageRun(
      client, {.name_space = name_space, .job = text.substr(0, dot), .number = number}, view);
  // Anything but 0, and the Job starts another manager, unless this one has forbidden it.
  context.code = outcome ? exitCode(*outcome) : kInfrastructureFailed;
}

}  // namespace

void addCoordinate(CLI::App& app, Context& context) {
  struct Arguments {
    std::string name_space;
    std::string run;
  };
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command =
      app.add_subcommand("coordinate", "Run a job of this cluster, from a pod of it");
  command->group("");  // started by dure, not by hand
  command->add_option("--namespace", arguments->name_space, "Where the run is")->required();
  command->add_option(kRunArgument, arguments->run, "NAME.NUMBER")->required();
  command->callback(
      [&context, arguments] { coordinateCommand(context, arguments->name_space, arguments->run); });
}

}  // namespace dure::cli
