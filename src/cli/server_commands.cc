#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <memory>
#include <ostream>

#include <CLI/CLI.hpp>

#include "cli/commands.h"
#include "serve/serve_arguments.h"

namespace dure::cli {
namespace {

// Becomes dure-server, which lies beside this program and has libtorch. Returns only if it cannot.
void becomeServer(Context& context, const char* command) {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::string program = (self.parent_path() / "dure-server").string();
  std::vector<std::string> words{program, command};
  words.insert(words.end(), context.arguments.begin(), context.arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  context.out.flush();
  execv(program.c_str(), pointers.data());
  context.fail(errno == ENOENT
                   ? Error(Code::kUnavailable, "there is no " + program + "; build or install it")
                   : systemError("start " + program));
}

}  // namespace

void addServe(CLI::App& app, Context& context) {
  auto arguments = std::make_shared<serve::ServeArguments>();
  CLI::App* command =
      app.add_subcommand("serve", "Answer requests with models, and show a page to try them");
  command->footer(
      "Waits for a file that is not there yet, and takes up a newer one without dropping a "
      "request.\n"
      "  dure serve out/model.h5                    http://127.0.0.1:8080/\n"
      "  curl -d '{\"instances\": [\"a fine film\"]}' localhost:8080/v1/models/model:predict\n"
      "Interfaces: TensorFlow Serving's (/v1), the Open Inference Protocol (/v2), /healthz, "
      "/readyz,\n"
      "/metrics. See docs/serving.md.");
  serve::addServeArguments(*command, *arguments);
  command->callback([&context, arguments] { becomeServer(context, "serve"); });
}

void addEvaluate(CLI::App& app, Context& context) {
  auto arguments = std::make_shared<serve::EvaluateArguments>();
  CLI::App* command =
      app.add_subcommand("evaluate", "Test a model: accuracy, loss, confusion matrix");
  serve::addEvaluateArguments(*command, *arguments);
  command->callback([&context, arguments] { becomeServer(context, "evaluate"); });
}

void addPredict(CLI::App& app, Context& context) {
  auto arguments = std::make_shared<serve::PredictArguments>();
  CLI::App* command = app.add_subcommand("predict", "Predict for every sample of a file");
  serve::addPredictArguments(*command, *arguments);
  command->callback([&context, arguments] { becomeServer(context, "predict"); });
}

}  // namespace dure::cli
