#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "pipeline/decide.h"
#include "pipeline/executor.h"
#include "pipeline/outputs.h"
#include "pipeline/step_entry.h"

namespace dure::pipeline {

// Who is told what happens. Called from the engine's thread.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void changed(const Part& part, const PartState& state) = 0;
};

// Where the journal of a pipeline is kept.
class PartJournal {
 public:
  virtual ~PartJournal() = default;
  // Durable when it returns.
  virtual Status write(const StepEntry& entry) = 0;
};

struct Finished {
  gang::Outcome outcome = gang::Outcome::kSucceeded;
  std::string reason;
};

// Carries out what decide() decides: writes what becomes of each part into the journal before
// anything depends on it. One thread.
class Engine {
 public:
  // `before` is what the journal of a run that is resumed holds. All references must outlive it.
  Engine(const Pipeline& pipeline, const Capacity& capacity, const std::vector<StepEntry>& before,
         Executor& executor, Outputs& outputs, PartJournal& journal, Observer& observer,
         const Clock& clock);

  // Finds out what is left of parts that were running when the pipeline process died, and forgets
  // failures: they are tried again. Once, before advance().
  Status recover();

  // Looks at what runs, and does what is to be done now. The end, when there is nothing left to do;
  // Io or Unavailable if the journal cannot be written.
  Result<std::optional<Finished>> advance();

  // The second request, and any that is `at_once`, is not gentle.
  void askToStop(bool at_once);

  const std::vector<Part>& parts() const { return parts_; }
  const std::vector<PartState>& states() const { return states_; }

 private:
  Status note(std::size_t i, PartStatus status, const std::string& reason);
  Status begin(std::size_t i);
  Status look(std::size_t i);
  Status fail(std::size_t i, const Progress& progress);
  Status complete(std::size_t i, const std::string& report);
  Result<std::string> findKey(std::size_t i);
  Result<Attempt> attemptOf(std::size_t i) const;

  const Pipeline& pipeline_;
  const Capacity capacity_;
  Executor& executor_;
  Outputs& outputs_;
  PartJournal& journal_;
  Observer& observer_;
  const Clock& clock_;
  const std::vector<Part> parts_;
  std::vector<PartState> states_;
  std::vector<TimePoint> retry_at_;
  std::vector<bool> told_to_stop_;
  std::map<std::string, std::string> input_digests_;  // by path, each read once in a run
  bool stop_ = false;
  bool at_once_ = false;
  bool infrastructure_ = false;  // failed, not a program
};

}  // namespace dure::pipeline
