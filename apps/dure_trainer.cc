#include <csignal>
#include <cstdio>
#include <filesystem>

#include <fmt/core.h>

#include "spec/load.h"
#include "train/memory.h"
#include "train/trainer.h"

// dure-trainer [JOB.yaml]: one worker of a native job. Without Dure around it, the only one.
int main(int argc, char** argv) {
  using namespace dure;
  const auto fail = [](const std::string& sentence, int code) {
    fmt::print(stderr, "dure-trainer: {}\n", sentence);
    return code;
  };
  std::signal(SIGPIPE, SIG_IGN);
  keepFreedMemory();
  auto here = readSurroundings();
  if (!here) return fail(here.error().message(), 2);
  if (argc > 1) here->job_file = argv[1];
  if (here->job_file.empty()) return fail("which job? dure-trainer JOB.yaml", 2);
  const Loaded loaded = loadJobFile(here->job_file, {});
  for (const Problem& problem : loaded.problems) fmt::print(stderr, "{}\n", problem.text());
  if (!loaded.ok()) return 2;
  if (here->checkpoint.empty()) here->checkpoint = loaded.job.checkpoint.path;
  if (here->output.empty()) here->output = loaded.job.output;
  const Status trained = train(loaded.job, *here);
  if (trained) return 0;
  // 2 says that trying again would not help.
  const Code code = trained.error().code();
  return fail(trained.error().message(), code == Code::kInvalid || code == Code::kNotFound ? 2 : 1);
}
