#include <chrono>
#include <csignal>
#include <cstdio>
#include <thread>

#include <fmt/core.h>

#include "base/rank_names.h"
#include "spec/load.h"
#include "train/memory.h"
#include "train/trainer.h"
#include "train/trainer_call.h"

namespace {

constexpr std::chrono::seconds kAfterOthers{1};

int fail(const std::string& sentence, int code) {
  fmt::print(stderr, "{}{}\n", dure::kTrainerPrefix, sentence);
  return code;
}

int trainJob(const dure::spec::Job& job, const dure::train::RankEnvironment& here) {
  using namespace dure;
  const Status trained = train::train(job, here);
  if (trained) return 0;
  const Code code = trained.error().code();
  // Most often because another worker is gone, which itself says why it ended. Whoever started the
  // workers sees that one first, and ends this one.
  if (code == Code::kUnavailable && here.world > 1) std::this_thread::sleep_for(kAfterOthers);
  const bool refused = code == Code::kInvalid || code == Code::kNotFound;
  return fail(trained.error().message(), refused ? kTrainerRefused : 1);
}

// One data file, one worker, whoever else there is.
int trainOnFile(const std::vector<std::string>& arguments) {
  using namespace dure;
  const auto call = train::parseTrainerCall(arguments);
  if (!call) return fail(call.error().message(), kTrainerRefused);
  if (call->help) {
    fmt::print("{}", train::kTrainerHelp);
    return 0;
  }
  const auto job = train::jobFor(*call);
  if (!job) return fail(job.error().message(), kTrainerRefused);
  train::RankEnvironment here;
  here.output = job->output;
  const int code = trainJob(*job, here);
  if (code == 0) fmt::print("{}: the model {}\n", here.output, job->train.model.name);
  return code;
}

}  // namespace

// dure-trainer [JOB.yaml]: one worker of a native job. Without Dure around it, the only one.
// dure-trainer --data FILE --savemodel MODEL: a training without a job file.
int main(int argc, char** argv) {
  using namespace dure;
  std::signal(SIGPIPE, SIG_IGN);
  train::keepFreedMemory();
  if (argc > 1 && argv[1][0] == '-') return trainOnFile({argv + 1, argv + argc});
  auto here = train::readRankEnvironment();
  if (!here) return fail(here.error().message(), kTrainerRefused);
  if (argc > 1) here->job_file = argv[1];
  if (here->job_file.empty()) return fail("which job? dure-trainer JOB.yaml", kTrainerRefused);
  const spec::Loaded loaded = spec::loadJobFile(here->job_file, {});
  for (const spec::Problem& problem : loaded.problems) fmt::print(stderr, "{}\n", problem.text());
  if (!loaded.ok()) return kTrainerRefused;
  if (here->checkpoint.empty()) here->checkpoint = loaded.job.checkpoint.path;
  if (here->output.empty()) here->output = loaded.job.output;
  return trainJob(loaded.job, *here);
}
