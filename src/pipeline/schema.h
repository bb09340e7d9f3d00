#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace dure::pipeline {

// The pipeline file as a JSON Schema (draft 2020-12), for editors. Where a number is wanted, a
// reference may stand instead.
nlohmann::json pipelineSchema();

// The reference of the pipeline file as a Markdown page, which is docs/pipeline-file.md.
std::string pipelineDocumentation();

}  // namespace dure::pipeline
