#include "pipeline/engine.h"

#include <algorithm>

#include <fmt/core.h>

#include "base/log.h"
#include "base/text.h"
#include "pipeline/digest.h"
#include "pipeline/key.h"

namespace dure::pipeline {
namespace {

constexpr Duration kServiceStarts{300'000};

}  // namespace

Engine::Engine(const Pipeline& pipeline, const Capacity& capacity,
               const std::vector<StepEntry>& before, Executor& executor, Outputs& outputs,
               PartJournal& journal, Observer& observer, const Clock& clock)
    : pipeline_(pipeline),
      capacity_(capacity),
      executor_(executor),
      outputs_(outputs),
      journal_(journal),
      observer_(observer),
      clock_(clock),
      parts_(partsOf(pipeline)),
      states_(parts_.size()),
      retry_at_(parts_.size()),
      told_to_stop_(parts_.size(), false) {
  for (const StepEntry& entry : before) {
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      if (parts_[i].name == entry.part) apply(states_[i], entry);
    }
  }
}

Status Engine::note(std::size_t i, PartStatus status, const std::string& reason) {
  StepEntry entry{.time = clock_.now(),
                  .part = parts_[i].name,
                  .status = status,
                  .attempt = states_[i].attempts,
                  .run = states_[i].run,
                  .key = states_[i].key,
                  .digest = isDone(status) ? states_[i].digest : "",
                  .reason = reason};
  if (auto written = journal_.write(entry); !written) return written;
  apply(states_[i], entry);
  logDebug("pipeline", "{}", describeEntry(entry));
  observer_.changed(parts_[i], states_[i]);
  return {};
}

Result<Attempt> Engine::attemptOf(std::size_t i) const {
  const Part& part = parts_[i];
  const Step& step = pipeline_.steps[part.step];
  auto job = jobOf(pipeline_, part, outputs_.foldersOf(part.folder));
  if (!job) return std::move(job).error();
  return Attempt{.part = part.name,
                 .kind = step.kind,
                 .job = *std::move(job),
                 .port = step.service.port,
                 .path = step.service.ready,
                 .type = step.service.type};
}

Status Engine::recover() {
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    PartState& state = states_[i];
    if (state.status == PartStatus::kSucceeded || state.status == PartStatus::kCached) {
      const auto there = outputs_.has(parts_[i].folder);
      if (!there) return there.error();
      if (!*there) state = {};
      continue;
    }
    const bool lived = state.status == PartStatus::kRunning || state.status == PartStatus::kReady;
    if (!lived || state.run.empty()) {
      // What failed or was stopped is tried again, as often as before.
      state = {};
      continue;
    }
    auto attempt = attemptOf(i);
    if (!attempt) {
      state = {};
      continue;
    }
    auto left = executor_.recover(*attempt, state.run);
    if (!left) return std::move(left).error();
    if (*left == Left::kRuns) continue;
    if (*left == Left::kSucceeded) {
      if (auto s = complete(i, executor_.reportOf(state.run)); !s) return s;
      continue;
    }
    if (*left == Left::kResumable) {
      if (auto s = outputs_.prepare(parts_[i].folder, true); !s) return s;
      if (auto s = note(i, PartStatus::kRunning, ""); !s) return s;
      if (executor_.resume(*attempt, state.run)) continue;
    }
    // The attempt that was cut off does not count.
    state.status = PartStatus::kWaiting;
    state.attempts = std::max(0, state.attempts - 1);
  }
  return {};
}

Result<std::string> Engine::findKey(std::size_t i) {
  const Part& part = parts_[i];
  std::map<std::string, std::string> inputs;
  for (const std::string& path : inputsOf(pipeline_, part, outputs_.foldersOf(part.folder))) {
    auto& known = input_digests_[path];
    if (known.empty()) {
      auto digest = digestTree(path);
      if (!digest) return std::move(digest).error().during("read the inputs");
      known = *std::move(digest);
    }
    inputs[path] = known;
  }
  std::map<std::string, std::vector<std::string>> needs;
  for (const std::string& need : pipeline_.steps[part.step].needs) {
    for (std::size_t j = 0; j < parts_.size(); ++j) {
      if (pipeline_.steps[parts_[j].step].name == need) needs[need].push_back(states_[j].digest);
    }
  }
  return keyOf(pipeline_, part, inputs, needs);
}

Status Engine::begin(std::size_t i) {
  const Part& part = parts_[i];
  const Step& step = pipeline_.steps[part.step];
  PartState& state = states_[i];
  const auto refuse = [&](const Error& error) {
    return note(i, PartStatus::kFailed, error.message());
  };
  auto key = findKey(i);
  if (!key) return refuse(key.error());
  state.key = *key;
  state.digest.clear();
  if (step.kind != StepKind::kService && state.attempts == 0) {
    auto reused = outputs_.reuse(part.name, part.folder, *key);
    if (!reused) {
      infrastructure_ = true;
      return refuse(reused.error());
    }
    if (*reused) {
      state.digest = std::move((*reused)->digest);
      return note(i, PartStatus::kCached, std::string(kAsIn) + (*reused)->run);
    }
  }
  if (auto prepared = outputs_.prepare(part.folder, false); !prepared) {
    infrastructure_ = true;
    return refuse(prepared.error());
  }
  const auto attempt = attemptOf(i);
  if (!attempt) return refuse(attempt.error());
  ++state.attempts;
  auto run = executor_.start(*attempt);
  if (!run) return refuse(run.error());
  state.run = *std::move(run);
  told_to_stop_[i] = false;
  return note(i, PartStatus::kRunning, "");
}

Status Engine::complete(std::size_t i, const std::string& report) {
  const auto reported = report.empty() ? Status{} : outputs_.report(parts_[i].name, report + "\n");
  auto digest = reported ? outputs_.publish(parts_[i].folder) : reported.error();
  if (!digest) {
    infrastructure_ = true;
    return note(i, PartStatus::kFailed, digest.error().message());
  }
  states_[i].digest = *std::move(digest);
  return note(i, PartStatus::kSucceeded, "");
}

Status Engine::fail(std::size_t i, const Progress& progress) {
  const Step& step = pipeline_.steps[parts_[i].step];
  PartState& state = states_[i];
  const bool again = !stop_ && step.kind != StepKind::kService && state.attempts <= step.retries;
  if (again) {
    retry_at_[i] = clock_.now() + retryPause(state.attempts);
    return note(i, PartStatus::kWaiting, progress.reason);
  }
  infrastructure_ = infrastructure_ || progress.state == Progress::State::kInfrastructureFailed;
  return note(i, PartStatus::kFailed, progress.reason);
}

Status Engine::look(std::size_t i) {
  const Step& step = pipeline_.steps[parts_[i].step];
  PartState& state = states_[i];
  const Progress progress = executor_.look(parts_[i].name);
  switch (progress.state) {
    case Progress::State::kRunning: {
      const Duration limit = step.timeout.count() > 0 ? step.timeout : kServiceStarts;
      const bool late = step.kind == StepKind::kService && state.status == PartStatus::kRunning &&
                        clock_.now() - state.began > limit;
      if (!late) return {};
      executor_.stop(parts_[i].name, true);
      return fail(i,
                  {.state = Progress::State::kFailed,
                   .reason = fmt::format("it was not ready after {}{}{}", describeDuration(limit),
                                         progress.reason.empty() ? "" : ": ", progress.reason)});
    }
    case Progress::State::kReady:
      if (state.status == PartStatus::kReady) return {};
      state.digest = state.key;
      return note(i, PartStatus::kReady, progress.reason);
    case Progress::State::kSucceeded:
      if (step.kind != StepKind::kService) return complete(i, progress.report);
      return fail(i, {.state = Progress::State::kFailed, .reason = "the service has ended"});
    case Progress::State::kStopped:
      if (told_to_stop_[i]) return note(i, PartStatus::kStopped, "");
      return fail(i, progress);
    case Progress::State::kFailed:
    case Progress::State::kInfrastructureFailed:
      if (told_to_stop_[i]) return note(i, PartStatus::kStopped, progress.reason);
      return fail(i, progress);
  }
  return {};
}

Result<std::optional<Finished>> Engine::advance() {
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const PartStatus status = states_[i].status;
    if (status != PartStatus::kRunning && status != PartStatus::kReady) continue;
    if (auto s = look(i); !s) return std::move(s).error();
  }
  while (true) {
    const Decision decision =
        decide(pipeline_, parts_, states_, retry_at_, capacity_, clock_.now(), stop_);
    if (decision.finish) {
      const bool ours = *decision.finish == gang::Outcome::kFailed && infrastructure_;
      return std::optional(Finished{ours ? gang::Outcome::kInfrastructureFailed : *decision.finish,
                                    decision.reason});
    }
    for (const std::size_t i : decision.stop) {
      if (told_to_stop_[i] && !at_once_) continue;
      told_to_stop_[i] = true;
      executor_.stop(parts_[i].name, at_once_);
    }
    bool cached = false;
    for (const std::size_t i : decision.start) {
      if (auto s = begin(i); !s) return std::move(s).error();
      cached = cached || states_[i].status == PartStatus::kCached;
      if (states_[i].status == PartStatus::kFailed) break;
    }
    // What was done already takes no time: what needs it begins at once.
    if (!cached) return std::optional<Finished>();
  }
}

void Engine::askToStop(bool at_once) {
  at_once_ = at_once || stop_;
  stop_ = true;
}

}  // namespace dure::pipeline
