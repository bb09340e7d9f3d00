#pragma once

#include <string>

#include "spec/job.h"
#include "spec/tree.h"

namespace dure {

// The job as a job file in its canonical form; loading it gives an equal job.
std::string printJob(const Job& job);

// The tree on one line: "{min: 2, max: 8}". Scalars marked as quoted are quoted where they would
// otherwise be something else than text.
std::string printOnOneLine(const TreeNode& node);

}  // namespace dure
