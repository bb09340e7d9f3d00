#pragma once

#include <nlohmann/json.hpp>

namespace dure::spec {

// The job file as a JSON Schema (draft 2020-12), for editors. It knows each field, not the rules
// between fields, so the loader refuses more; and it asks for a value where the loader lets one be
// empty (`timeouts:` alone).
nlohmann::json jobSchema();

}  // namespace dure::spec
