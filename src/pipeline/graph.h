#pragma once

#include <string>
#include <vector>

#include "pipeline/pipeline.h"

namespace dure::pipeline {

// The steps of a cycle in the order in which they wait for each other, the first one again at the
// end; empty if there is none.
std::vector<std::string> findCycle(const Pipeline& pipeline);

// The numbers of the steps, each after all that it needs, otherwise in the order of the file. For
// a pipeline without cycles.
std::vector<std::size_t> inOrder(const Pipeline& pipeline);

// The graph with one line for each step, in the order of inOrder(): "├─● ". All have one width, in
// characters.
std::vector<std::string> drawGraph(const Pipeline& pipeline);

}  // namespace dure::pipeline
