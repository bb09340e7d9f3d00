#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "plan/place.h"
#include "spec/job.h"

namespace dure::cli {

// A sentence and a table, for people.
std::string showPlacement(const Job& job, const Placement& placement);

nlohmann::json toJson(const Job& job, const Placement& placement);
nlohmann::json toJson(const Shortage& shortage);

}  // namespace dure::cli
