#pragma once

#include <vector>

#include "spec/job.h"
#include "spec/places.h"

namespace dure {

// Adds what is wrong between the fields of a job, each of which is right by itself. Fields that
// could not be read take part in no rule, so that one mistake is not reported as several.
void validateJob(const Job& job, const Places& places, std::vector<Finding>& findings);

}  // namespace dure
