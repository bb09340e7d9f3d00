#pragma once

#include <map>
#include <string>

#include "gang/roster.h"
#include "plan/place.h"

namespace dure::gang {

// The layout that a plan comes to.
Layout layoutOf(const spec::Job& job, const plan::Placement& placement);

// The node of every task that has one. MPI's launcher needs none of its own.
std::map<std::string, std::string> nodesOf(const Roster& roster, const plan::Placement& placement);

}  // namespace dure::gang
