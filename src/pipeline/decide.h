#pragma once

#include <optional>
#include <string>
#include <vector>

#include "gang/journal.h"
#include "pipeline/pipeline.h"
#include "pipeline/step_entry.h"

namespace dure::pipeline {

// What runs beside what.
struct Capacity {
  int parts = 0;    // at once; 0: as many as fit
  double cpus = 0;  // of the machine; 0: no matter
};

struct Decision {
  std::vector<std::size_t> start;  // parts, in this order
  std::vector<std::size_t> stop;   // parts that are running, or ready
  std::optional<gang::Outcome> finish;
  std::string reason;
};

// What to do now. After a failure nothing new starts, what runs may end, then services are stopped
// and the pipeline has failed; when asked to stop, everything is stopped. Parts that were told to
// stop are named again as long as they run. `retry_at` are the times before which a part must not
// start. Pure.
Decision decide(const Pipeline& pipeline, const std::vector<Part>& parts,
                const std::vector<PartState>& states, const std::vector<TimePoint>& retry_at,
                const Capacity& capacity, TimePoint now, bool asked_to_stop);

// The pause before the attempt after so many failures.
Duration retryPause(int failures);

}  // namespace dure::pipeline
