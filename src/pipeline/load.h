#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "pipeline/pipeline.h"
#include "spec/problem.h"

namespace dure::pipeline {

// A parameter given on the command line. The value is read as YAML: "5", "[a, b]".
struct Setting {
  std::string origin;  // what the person typed: "--set workers"
  std::string name;
  std::string value;
};

// Of use only if there are no problems; they are in the order of the file, then of the settings.
struct LoadedPipeline {
  Pipeline pipeline;
  // The same pipeline as a file of its own, with every parameter as it was set and `workdir`
  // absolute: what is kept in the record of a run.
  std::string text;
  std::vector<spec::Problem> problems;
  bool ok() const { return problems.empty(); }
};

// `file` is where the text came from: its name is in the problems, its directory is where `workdir`
// begins. Looks at job files and inputs that the pipeline names, and changes nothing.
LoadedPipeline loadPipelineText(const std::string& file, std::string_view text,
                                const std::vector<Setting>& settings);
// "-" is standard input.
LoadedPipeline loadPipelineFile(const std::string& path, const std::vector<Setting>& settings);

}  // namespace dure::pipeline
