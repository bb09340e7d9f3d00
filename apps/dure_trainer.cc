#include <chrono>
#include <csignal>
#include <cstdio>
#include <thread>

#include <fmt/core.h>

#include "base/rank_names.h"
#include "spec/load.h"
#include "train/memory.h"
#include "train/trainer.h"

namespace {

constexpr std::chrono::seconds kAfterOthers{1};

}  // namespace

// dure-trainer [JOB.yaml]: one worker of a native job. Without Dure around it, the only one.
int main(int argc, char** argv) {
  using namespace dure;
  const auto fail = [](const std::string& sentence, int code) {
    fmt::print(stderr, "dure-trainer: {}\n", sentence);
    return code;
  };
  std::signal(SIGPIPE, SIG_IGN);
  train::keepFreedMemory();
  auto here = train::readRankEnvironment();
  if (!here) return fail(here.error().message(), kTrainerRefused);
  if (argc > 1) here->job_file = argv[1];
  if (here->job_file.empty()) return fail("which job? dure-trainer JOB.yaml", kTrainerRefused);
  const spec::Loaded loaded = spec::loadJobFile(here->job_file, {});
  for (const spec::Problem& problem : loaded.problems) fmt::print(stderr, "{}\n", problem.text());
  if (!loaded.ok()) return kTrainerRefused;
  if (here->checkpoint.empty()) here->checkpoint = loaded.job.checkpoint.path;
  if (here->output.empty()) here->output = loaded.job.output;
  const Status trained = train::train(loaded.job, *here);
  if (trained) return 0;
  const Code code = trained.error().code();
  // Most often because another worker is gone, which itself says why it ended. Whoever started the
  // workers sees that one first, and ends this one.
  if (code == Code::kUnavailable && here->world > 1) std::this_thread::sleep_for(kAfterOthers);
  const bool refused = code == Code::kInvalid || code == Code::kNotFound;
  return fail(trained.error().message(), refused ? kTrainerRefused : 1);
}
