#pragma once

#include "spec/fields.h"
#include "spec/job.h"
#include "spec/tree.h"

namespace dure::spec {

// Every field of the job, each in its longest form and at its own path. Text is marked as quoted.
TreeNode fullTree(const Job& job);
// The same of the fields that `visit` visits.
TreeNode fullTree(const VisitFields& visit);

// What a person would write: name, strategy and workers, and of the rest what is not the default,
// in the shortest form. Parses back to an equal job.
TreeNode shortTree(const Job& job);

}  // namespace dure::spec
