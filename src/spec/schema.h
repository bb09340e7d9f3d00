#pragma once

#include <nlohmann/json.hpp>

namespace dure {

// The job file as a JSON Schema (draft 2020-12), for editors. It knows each field, not the rules
// between fields: what it refuses the loader refuses too, but not the other way round.
nlohmann::json jobSchema();

}  // namespace dure
