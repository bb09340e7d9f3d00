#include "spec/job.h"

#include "spec/fields.h"

namespace dure::spec {

std::string strategyName(Strategy strategy) {
  return strategyWords().at(static_cast<std::size_t>(strategy));
}

int processesPerTask(const Job& job) {
  if (job.processes > 0) return job.processes;
  return job.resources.gpus > 0 ? job.resources.gpus : 1;
}

std::vector<Volume> allVolumes(const Job& job) {
  std::vector<Volume> volumes = job.volumes;
  if (!job.checkpoint.claim.empty()) {
    volumes.push_back(
        {.path = job.checkpoint.path, .claim = job.checkpoint.claim, .tasks = VolumeTasks::kChief});
  }
  return volumes;
}

}  // namespace dure::spec
