#pragma once

#include <vector>

#include "pipeline/pipeline.h"
#include "spec/field_places.h"
#include "spec/problem.h"
#include "spec/tree.h"

namespace dure::pipeline {

// Adds what is wrong with references: parameters and steps that do not exist, a ${{ without an end.
void checkReferences(const spec::TreeNode& root, const std::vector<Parameter>& parameters,
                     std::vector<spec::Finding>& findings);

// Makes sense of what was parsed (kinds, needs, fan-out), and adds what is wrong between the
// fields: unknown steps, cycles, missing inputs, mistakes in jobs. Those in job files go to
// `others`.
void checkPipeline(Pipeline& pipeline, const spec::TreeNode& root, const spec::FieldPlaces& places,
                   std::vector<spec::Finding>& findings, std::vector<spec::Problem>& others);

}  // namespace dure::pipeline
