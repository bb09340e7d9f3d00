#include <csignal>
#include <iostream>

#include <CLI/CLI.hpp>

#include "base/log.h"
#include "base/process.h"
#include "predict/serve.h"
#include "train/memory.h"

// dure-server serve | evaluate | predict …: what `dure` of the same name runs.
int main(int argc, char** argv) {
  using namespace dure;
  std::signal(SIGPIPE, SIG_IGN);
  train::keepFreedMemory();
  raiseDescriptorLimit();
  // Whoever started us has checked what it says.
  static_cast<void>(setLogLevelFromEnvironment());
  serve::ServeArguments serving;
  serve::EvaluateArguments evaluating;
  serve::PredictArguments predicting;
  int code = 0;
  CLI::App app("Serves models, tests them, and predicts with them; see dure serve --help",
               "dure-server");
  app.set_version_flag("--version", "dure-server " DURE_VERSION);
  app.require_subcommand(1);
  CLI::App* serve = app.add_subcommand("serve", "Answer requests with models");
  serve::addServeArguments(*serve, serving);
  serve->callback([&] { code = predict::serveModels(serving); });
  CLI::App* evaluate = app.add_subcommand("evaluate", "Test a model on data");
  serve::addEvaluateArguments(*evaluate, evaluating);
  evaluate->callback([&] { code = predict::evaluateModel(evaluating); });
  CLI::App* predict = app.add_subcommand("predict", "Predict for the samples of a file");
  serve::addPredictArguments(*predict, predicting);
  predict->callback([&] { code = predict::predictFile(predicting); });
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    std::cerr << "dure-server: " << error.what() << "\n";
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "dure-server: " << error.what() << "\n";
    return 3;
  }
  return code;
}
