#include "train/training_facts.h"

#include <filesystem>

#include <fmt/core.h>

#include "base/text.h"

namespace dure::train {
namespace {

std::string syncText(const spec::Sync& sync) {
  const spec::SyncRules& rules = spec::rulesOf(sync.mode);
  return rules.word.empty() ? fmt::format("{} {}", rules.field, sync.every)
                            : std::string(rules.word);
}

}  // namespace

std::map<std::string, std::string> trainingFacts(const spec::Train& train,
                                                 const TrainingCounts& counts,
                                                 const TrainingSummary& summary) {
  // Its name alone: the folders are of one machine.
  std::filesystem::path data(train.data.path);
  if (!data.has_filename()) data = data.parent_path();
  const std::int64_t epochs = (counts.steps + counts.steps_per_epoch - 1) / counts.steps_per_epoch;
  std::map<std::string, std::string> facts{{"data", toValidUtf8(data.filename().string())},
                                           {"samples", std::to_string(counts.samples)},
                                           {"epochs", std::to_string(epochs)},
                                           {"workers", std::to_string(counts.workers)},
                                           {"sync", syncText(train.sync)}};
  if (summary.tested && summary.classes)
    facts["accuracy"] = fmt::format("{:.6g}", summary.accuracy);
  if (summary.tested) facts["loss"] = fmt::format("{:.6g}", summary.loss);
  return facts;
}

}  // namespace dure::train
