#pragma once

#include <map>
#include <string>

#include "gang/roster.h"
#include "plan/place.h"

namespace dure {

// How a job is laid out by a plan.
Layout layoutOf(const Job& job, const Placement& placement);

// The node of every task that has one. MPI's launcher needs none of its own.
std::map<std::string, std::string> nodesOf(const Roster& roster, const Placement& placement);

}  // namespace dure
