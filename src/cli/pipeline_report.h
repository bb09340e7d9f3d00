#pragma once

#include <iosfwd>

#include "cli/command.h"
#include "runs/run_reader.h"
#include "runs/runs.h"

namespace dure::cli {

// All about a pipeline: its graph with how each step stands, and what happened.
void printPipeline(std::ostream& out, const runs::RunStore& store, const runs::RunView& run);

// Where the outputs of its steps are, in words: a directory, or one of a claim in a cluster.
std::string outputsOf(const runs::RunPaths& record);

struct PipelineLogQuery {
  std::string step;  // or a part; empty: all
  bool follow = false;
};
// What steps printed, part by part: the last attempt of each, or all that comes with `follow`.
// NotFound, with a suggestion, if there is no such step.
Status pipelineLogs(
    const runs::RunStore& store, const runs::RunId& id, const PipelineLogQuery& query,
    const std::function<void(const std::string& part, int rank, std::string_view lines)>& lines);

}  // namespace dure::cli
