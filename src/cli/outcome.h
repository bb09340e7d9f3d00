#pragma once

#include <string>

#include "base/clock.h"
#include "gang/journal.h"

namespace dure::cli {

int exitCode(gang::Outcome outcome);

// "train.1 succeeded after 3 min, 1 restart", "train.1 failed: rank 1 …".
std::string describeEnd(const std::string& run, gang::Outcome outcome, const std::string& reason,
                        int restarts, Duration took);

}  // namespace dure::cli
