#include "pipeline/decide.h"

#include <algorithm>

#include <fmt/core.h>

namespace dure::pipeline {
namespace {

bool stepIsDone(const Pipeline& pipeline, const std::vector<Part>& parts,
                const std::vector<PartState>& states, const std::string& name) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (pipeline.steps[parts[i].step].name == name && !isDone(states[i].status)) return false;
  }
  return true;
}

}  // namespace

Duration retryPause(int failures) {
  const int doublings = std::clamp(failures - 1, 0, 5);
  return std::min(Duration(5'000), Duration(200 * (1 << doublings)));
}

Decision decide(const Pipeline& pipeline, const std::vector<Part>& parts,
                const std::vector<PartState>& states, const std::vector<TimePoint>& retry_at,
                const Capacity& capacity, TimePoint now, bool asked_to_stop) {
  Decision decision;
  const auto is_service = [&](std::size_t i) {
    return pipeline.steps[parts[i].step].kind == StepKind::kService;
  };
  std::size_t running = 0;
  std::size_t busy = 0;  // those that take processors
  double cpus = 0;
  std::optional<std::size_t> failed;
  bool all_done = true;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const PartStatus status = states[i].status;
    all_done = all_done && isDone(status);
    if (status == PartStatus::kFailed && !failed) failed = i;
    if (status == PartStatus::kRunning) {
      ++running;
      if (!is_service(i)) {
        ++busy;
        cpus += pipeline.steps[parts[i].step].cpus;
      }
    }
  }
  const auto stop_all = [&](bool only_services) {
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const PartStatus status = states[i].status;
      const bool lives = status == PartStatus::kRunning || status == PartStatus::kReady;
      if (lives && (!only_services || is_service(i))) decision.stop.push_back(i);
    }
  };
  if (asked_to_stop) {
    stop_all(false);
    if (decision.stop.empty()) {
      decision.finish = gang::Outcome::kStopped;
      decision.reason = "it was asked to stop";
    }
    return decision;
  }
  if (failed) {
    // What has begun may end: its result counts when the pipeline is resumed.
    bool commands_run = false;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      commands_run = commands_run || (states[i].status == PartStatus::kRunning && !is_service(i));
    }
    if (commands_run) return decision;
    stop_all(true);
    if (!decision.stop.empty()) return decision;
    decision.finish = gang::Outcome::kFailed;
    decision.reason = fmt::format("{} failed: {}", parts[*failed].name, states[*failed].reason);
    return decision;
  }
  if (all_done) {
    decision.finish = gang::Outcome::kSucceeded;
    return decision;
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Step& step = pipeline.steps[parts[i].step];
    if (states[i].status != PartStatus::kWaiting || now < retry_at[i]) continue;
    const bool needs_done = std::all_of(
        step.needs.begin(), step.needs.end(),
        [&](const std::string& need) { return stepIsDone(pipeline, parts, states, need); });
    if (!needs_done) continue;
    if (step.kind == StepKind::kService) {
      decision.start.push_back(i);
      continue;
    }
    if (capacity.parts > 0 && static_cast<int>(busy) >= capacity.parts) continue;
    const double wanted = pipeline.steps[parts[i].step].cpus;
    const bool crowded = capacity.parts == 0 && capacity.cpus > 0 && cpus + wanted > capacity.cpus;
    if (crowded && busy > 0) continue;
    decision.start.push_back(i);
    ++busy;
    cpus += wanted;
  }
  return decision;
}

}  // namespace dure::pipeline
