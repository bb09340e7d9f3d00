#pragma once

#include <optional>
#include <string>
#include <vector>

#include "pipeline/load.h"
#include "pipeline/pipeline.h"
#include "spec/tree.h"

namespace dure::pipeline {

// "whole", as in the file.
std::string typeName(ParameterType type);

// Gives parameters their types and the values that were set. `section` is where they were written.
void setParameters(std::vector<Parameter>& parameters, const spec::TreeNode* section,
                   const std::vector<Setting>& settings, std::vector<spec::Finding>& findings);

// What a reference to parameters stands for: one of them, or a product of whole numbers ("workers *
// epochs"). Nothing if it names anything else.
std::optional<spec::TreeNode> valueOf(const std::string& name,
                                      const std::vector<Parameter>& parameters);

// Puts the values of parameters into every text of the tree but the section that defines them. A
// text that is one reference becomes what the value is: a number, a list.
void fillParameters(spec::TreeNode& root, const std::vector<Parameter>& parameters);

}  // namespace dure::pipeline
