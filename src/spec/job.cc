#include "spec/job.h"

#include "spec/fields.h"

namespace dure {

std::string strategyName(Strategy strategy) {
  return strategyWords().at(static_cast<std::size_t>(strategy));
}

int processesPerTask(const Job& job) {
  if (job.processes > 0) return job.processes;
  return job.resources.gpus > 0 ? job.resources.gpus : 1;
}

}  // namespace dure
