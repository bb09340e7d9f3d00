#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "pipeline/pipeline.h"
#include "pipeline/step_entry.h"
#include "runs/run_store.h"

namespace dure::pipeline {

// A run of a pipeline as commands show it.
struct RecordView {
  Pipeline pipeline;
  std::vector<Part> parts;
  std::vector<PartState> states;
  std::vector<std::string> words;  // how each part stands: a status, or "lost" or "ended"
  std::vector<StepEntry> entries;

  std::size_t done() const;
};

// `in_charge`: whether a process is in charge of the pipeline. Not for that process itself.
RecordView readRecord(const runs::RunStore& store, const runs::RunId& id, bool in_charge);

// How a step stands, of what its parts do: "running 3/5", "succeeded".
std::string stepWord(const RecordView& view, std::size_t step);
// How long it took, or takes so far; 0 if it has not begun.
Duration stepTime(const RecordView& view, std::size_t step, TimePoint now);

// A list of steps, each with its parts.
nlohmann::json stepsToJson(const RecordView& view);

}  // namespace dure::pipeline
