#include "cli/outcome.h"

#include <fmt/core.h>

#include "base/text.h"
#include "cli/command.h"

namespace dure::cli {

int exitCode(gang::Outcome outcome) {
  switch (outcome) {
    case gang::Outcome::kSucceeded:
      return kDone;
    case gang::Outcome::kFailed:
      return kJobFailed;
    case gang::Outcome::kStopped:
      return kInterrupted;
    case gang::Outcome::kInfrastructureFailed:
      return kInfrastructureFailed;
  }
  return kInfrastructureFailed;
}

std::string describeEnd(const std::string& run, gang::Outcome outcome, const std::string& reason,
                        int restarts, Duration took) {
  if (outcome != gang::Outcome::kSucceeded) {
    return fmt::format("{} {}: {}", run, gang::outcomeName(outcome), reason);
  }
  return fmt::format(
      "{} succeeded after {}{}", run, describeDuration(took),
      restarts == 0 ? "" : fmt::format(", {} restart{}", restarts, restarts == 1 ? "" : "s"));
}

}  // namespace dure::cli
