#pragma once

#include <vector>

#include "spec/field_places.h"
#include "spec/job.h"

namespace dure::spec {

// Adds what is wrong between the fields of a job, each of which is right by itself. Fields that
// could not be read take part in no rule, so that one mistake is not reported as several.
void validateJob(const Job& job, const FieldPlaces& places, std::vector<Finding>& findings);

}  // namespace dure::spec
