#pragma once

#include <string>
#include <vector>

#include "spec/catalog.h"
#include "spec/field_places.h"
#include "spec/job.h"
#include "spec/tree.h"

namespace dure::spec {

// Reads the map `root` into `job`, and adds to `findings` everything that no field of a job can be.
// What could not be read keeps its value.
FieldPlaces parseJob(const TreeNode& root, Job& job, std::vector<Finding>& findings);

// The same for the fields that `visit` visits and `catalog` lists.
FieldPlaces parseFields(const TreeNode& root, const Catalog& catalog, const VisitFields& visit,
                        std::vector<Finding>& findings);

// The map that a scalar stands for: {min: 2, max: 2} for 2.
TreeNode expandShorthand(const TreeNode& scalar, const std::vector<std::string>& names);

}  // namespace dure::spec
