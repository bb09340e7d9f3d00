#pragma once

#include <string>

#include "pipeline/pipeline.h"
#include "spec/catalog.h"
#include "spec/fields.h"

namespace dure::pipeline {

// The one definition of the pipeline file: parser, schema, documentation and completion are
// visitors of it.
void visitPipeline(spec::FieldVisitor& visitor, Pipeline& pipeline);
// Made once.
const spec::Catalog& pipelineCatalog();

// Of a step: with "-INDEX" behind it, it still is the name of a job.
inline constexpr std::size_t kMaxStepNameLength = 32;

}  // namespace dure::pipeline
