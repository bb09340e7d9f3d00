#pragma once

#include <string>

#include "spec/job.h"
#include "spec/tree.h"

namespace dure::spec {

// The job as a job file in its canonical form; loading it gives an equal job.
std::string printJob(const Job& job);

// The tree on one line: "{min: 2, max: 8}". Scalars marked as quoted are quoted where they would
// otherwise be something else than text.
std::string printOnOneLine(const TreeNode& node);

// The map as a YAML document, with a line for each of its fields. What is marked as quoted is read
// back as text, whatever it looks like, by every YAML reader.
std::string printTree(const TreeNode& map);

}  // namespace dure::spec
