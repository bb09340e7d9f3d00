#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "spec/fields.h"

namespace dure::spec {

// The job file as a JSON Schema (draft 2020-12), for editors. It knows each field, not the rules
// between fields, so the loader refuses more; and it asks for a value where the loader lets one be
// empty (`timeouts:` alone).
nlohmann::json jobSchema();

// The schema of an object with the fields that `visit` visits; `defaults` is its full tree.
nlohmann::json fieldsSchema(const VisitFields& visit, const TreeNode& defaults,
                            const std::vector<std::string>& required);

}  // namespace dure::spec
