#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "plan/place.h"
#include "spec/job.h"

namespace dure::cli {

// A sentence and a table, for people.
std::string showPlacement(const spec::Job& job, const plan::Placement& placement);

nlohmann::json toJson(const spec::Job& job, const plan::Placement& placement);
nlohmann::json toJson(const plan::Shortage& shortage);

}  // namespace dure::cli
