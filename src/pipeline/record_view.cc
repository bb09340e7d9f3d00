#include "pipeline/record_view.h"

#include <algorithm>
#include <map>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "pipeline/load.h"

namespace dure::pipeline {
namespace {

constexpr const char* kLostWord = "lost";
constexpr const char* kEndedWord = "ended";

// In the order in which a word tells more about the step than the ones behind it.
constexpr const char* kWordOrder[] = {"failed",   kLostWord, "stopped",   "running", "waiting",
                                      kEndedWord, "ready",   "succeeded", "cached"};

// Whether a service that was ready, and that no process here is in charge of, is there still.
bool isServed(const runs::RunStore& store, const runs::RunId& id, const std::string& part,
              const std::string& run) {
  const runs::RunPaths paths = store.paths(id);
  if (!fileExists(paths.cluster())) {
    const runs::RunStore inner(paths.directory);
    const auto found = inner.find(run);
    return found && inner.coordinator(*found);
  }
  // A cluster keeps it running by itself, until a later run takes its place.
  const std::vector<runs::RunId> ids = store.list();
  return std::none_of(ids.begin(), ids.end(), [&](const runs::RunId& later) {
    if (later.name != id.name || later.number <= id.number) return false;
    if (!fileExists(store.paths(later).cluster())) return false;
    const auto entries = readStepEntries(store.paths(later).events());
    return std::any_of(entries.begin(), entries.end(), [&](const StepEntry& entry) {
      return entry.part == part && entry.status == PartStatus::kReady;
    });
  });
}

}  // namespace

std::size_t RecordView::done() const {
  return static_cast<std::size_t>(std::count_if(
      states.begin(), states.end(), [](const PartState& state) { return isDone(state.status); }));
}

RecordView readRecord(const runs::RunStore& store, const runs::RunId& id, bool in_charge) {
  const runs::RunPaths paths = store.paths(id);
  // What it names may have gone since; what it says has not.
  RecordView view{.pipeline = loadPipelineFile(paths.pipeline(), {}).pipeline};
  view.parts = partsOf(view.pipeline);
  view.states.resize(view.parts.size());
  view.entries = readStepEntries(paths.events());
  std::map<std::string, std::size_t> numbers;
  for (std::size_t i = 0; i < view.parts.size(); ++i) numbers[view.parts[i].name] = i;
  for (const StepEntry& entry : view.entries) {
    if (const auto found = numbers.find(entry.part); found != numbers.end()) {
      apply(view.states[found->second], entry);
    }
  }
  for (std::size_t i = 0; i < view.parts.size(); ++i) {
    const PartState& state = view.states[i];
    std::string word = statusName(state.status);
    if (state.status == PartStatus::kRunning && !in_charge) word = kLostWord;
    if (state.status == PartStatus::kReady && !in_charge) {
      if (!isServed(store, id, view.parts[i].name, state.run)) word = kEndedWord;
    }
    view.words.push_back(std::move(word));
  }
  return view;
}

std::string stepWord(const RecordView& view, std::size_t step) {
  std::map<std::string, int> counts;
  int all = 0;
  int done = 0;
  for (std::size_t i = 0; i < view.parts.size(); ++i) {
    if (view.parts[i].step != step) continue;
    ++counts[view.words[i]];
    ++all;
    done += isDone(view.states[i].status) ? 1 : 0;
  }
  for (const char* word : kWordOrder) {
    if (counts[word] == 0) continue;
    return counts[word] == all ? word : fmt::format("{}, {}/{} done", word, done, all);
  }
  return "";
}

Duration stepTime(const RecordView& view, std::size_t step, TimePoint now) {
  TimePoint began{};
  TimePoint ended{};
  bool open = false;
  for (std::size_t i = 0; i < view.parts.size(); ++i) {
    const PartState& state = view.states[i];
    if (view.parts[i].step != step || state.began == TimePoint{}) continue;
    if (began == TimePoint{} || state.began < began) began = state.began;
    ended = std::max(ended, state.ended);
    open = open || (state.ended == TimePoint{} && view.words[i] == "running");
  }
  if (began == TimePoint{}) return Duration(0);
  return std::chrono::duration_cast<Duration>((open ? now : std::max(began, ended)) - began);
}

nlohmann::json stepsToJson(const RecordView& view) {
  nlohmann::json steps = nlohmann::json::array();
  for (std::size_t i = 0; i < view.pipeline.steps.size(); ++i) {
    const Step& step = view.pipeline.steps[i];
    nlohmann::json parts = nlohmann::json::array();
    for (std::size_t j = 0; j < view.parts.size(); ++j) {
      if (view.parts[j].step != i) continue;
      const PartState& state = view.states[j];
      nlohmann::json part = {
          {"name", view.parts[j].name}, {"state", view.words[j]}, {"attempts", state.attempts}};
      if (step.fans_out) part["index"] = view.parts[j].index;
      if (!state.run.empty()) part["run"] = state.run;
      if (!state.reason.empty()) part["reason"] = state.reason;
      if (!state.key.empty()) part["key"] = state.key;
      if (!state.digest.empty()) part["digest"] = state.digest;
      if (state.began != TimePoint{}) part["began"] = formatTime(state.began);
      if (state.ended != TimePoint{}) part["ended"] = formatTime(state.ended);
      parts.push_back(std::move(part));
    }
    std::string word = stepWord(view, i);
    word = word.substr(0, word.find(','));
    nlohmann::json object = {{"name", step.name},
                             {"kind", kindName(step.kind)},
                             {"state", word},
                             {"needs", step.needs},
                             {"parts", std::move(parts)}};
    if (!step.labels.empty()) object["labels"] = step.labels;
    steps.push_back(std::move(object));
  }
  return steps;
}

}  // namespace dure::pipeline
