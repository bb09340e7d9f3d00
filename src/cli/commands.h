#pragma once

#include "cli/command.h"

// Every command: each is a file of this folder, and is added here. Help, dispatch and shell
// completion follow from what it adds to the program.
namespace dure::cli {

void addRun(CLI::App& app, Context& context);
void addCheck(CLI::App& app, Context& context);
void addEnv(CLI::App& app, Context& context);
void addPlan(CLI::App& app, Context& context);
void addRender(CLI::App& app, Context& context);
void addPipeline(CLI::App& app, Context& context);
void addPs(CLI::App& app, Context& context);
void addDescribe(CLI::App& app, Context& context);
void addLogs(CLI::App& app, Context& context);
void addStop(CLI::App& app, Context& context);
void addRm(CLI::App& app, Context& context);
void addFetch(CLI::App& app, Context& context);
void addCopy(CLI::App& app, Context& context);
void addAverage(CLI::App& app, Context& context);
void addServe(CLI::App& app, Context& context);
void addEvaluate(CLI::App& app, Context& context);
void addPredict(CLI::App& app, Context& context);
void addCoordinate(CLI::App& app, Context& context);
void addPipelineVolume(CLI::App& app, Context& context);
void addSchema(CLI::App& app, Context& context);
void addCompletion(CLI::App& app, Context& context);

// Adds them in the order of `dure --help`.
inline void addCommands(CLI::App& app, Context& context) {
  addRun(app, context);
  addCheck(app, context);
  addEnv(app, context);
  addPlan(app, context);
  addRender(app, context);
  addPipeline(app, context);
  addPs(app, context);
  addDescribe(app, context);
  addLogs(app, context);
  addStop(app, context);
  addRm(app, context);
  addFetch(app, context);
  addCopy(app, context);
  addAverage(app, context);
  addServe(app, context);
  addEvaluate(app, context);
  addPredict(app, context);
  addCoordinate(app, context);
  addPipelineVolume(app, context);
  addSchema(app, context);
  addCompletion(app, context);
}

}  // namespace dure::cli
