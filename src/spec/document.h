#pragma once

#include <string>

#include "spec/catalog.h"
#include "spec/tree.h"

namespace dure::spec {

// The reference of the job file as a Markdown page, which is docs/job-file.md.
std::string jobDocumentation();

// The fields of a catalog as Markdown tables: those on top, then a section for each that has fields
// of its own. `defaults` is the full tree of the default object.
std::string fieldTables(const Catalog& catalog, const TreeNode& defaults);

}  // namespace dure::spec
