#pragma once

#include <string>

#include "cli/command.h"
#include "cli/where_arguments.h"
#include "pipeline/load.h"

namespace dure::cli {

struct PipelineRunOptions {
  bool fresh = false;
  bool detach = false;
  int parallel = 0;  // 0: as the file says
  WhereArguments where;
};

// Runs a pipeline, on this machine or in a cluster, to its end (or, detached, until it has begun),
// and returns the exit code.
int runPipeline(Context& context, runs::RunStore& store, const pipeline::LoadedPipeline& loaded,
                const PipelineRunOptions& options);

// Goes on with a run whose process died, that was stopped, or that has failed.
int resumePipeline(Context& context, runs::RunStore& store, const std::string& name,
                   const PipelineRunOptions& options);

}  // namespace dure::cli
