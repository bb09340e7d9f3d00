#pragma once

#include <map>
#include <string>
#include <vector>

#include "pipeline/part_job.h"

namespace dure::pipeline {

// All that the result of a part depends on, as one digest: what runs, in which environment, the
// content of its inputs, and the outputs of the steps it needs. Not its name, nor how long it may
// take, how often it is tried, or how much of a machine it gets. Invalid as jobOf().
// `inputs` are digests by path, `needs` those of the parts of each step by name.
Result<std::string> keyOf(const Pipeline& pipeline, const Part& part,
                          const std::map<std::string, std::string>& inputs,
                          const std::map<std::string, std::vector<std::string>>& needs);

}  // namespace dure::pipeline
