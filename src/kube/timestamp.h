#pragma once

#include <optional>
#include <string>

#include "base/clock.h"

namespace dure::kube {

// A moment as Kubernetes and its plugins write it, with or without a fraction, in any zone:
// "2026-11-15T20:01:02Z", "2026-11-15T21:01:02.5+01:00". What lies beyond our clock is its end.
std::optional<TimePoint> parseTimestamp(const std::string& text);

}  // namespace dure::kube
