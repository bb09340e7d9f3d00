#include "cli/outcome.h"

#include <fmt/core.h>

#include "base/text.h"
#include "cli/command.h"

namespace dure::cli {

int exitCode(Outcome outcome) {
  switch (outcome) {
    case Outcome::kSucceeded:
      return kDone;
    case Outcome::kFailed:
      return kJobFailed;
    case Outcome::kStopped:
      return kInterrupted;
    case Outcome::kPlaceFailed:
      return kPlaceFailed;
  }
  return kPlaceFailed;
}

std::string describeEnd(const std::string& run, Outcome outcome, const std::string& reason,
                        int restarts, Duration took) {
  if (outcome != Outcome::kSucceeded) {
    return fmt::format("{} {}: {}", run, outcomeName(outcome), reason);
  }
  return fmt::format(
      "{} succeeded after {}{}", run, describeDuration(took),
      restarts == 0 ? "" : fmt::format(", {} restart{}", restarts, restarts == 1 ? "" : "s"));
}

}  // namespace dure::cli
