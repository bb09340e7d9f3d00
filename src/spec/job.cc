#include "spec/job.h"

namespace dure::spec {

int processesPerTask(const Job& job) {
  if (job.processes > 0) return job.processes;
  return job.resources.gpus > 0 ? job.resources.gpus : 1;
}

bool runsTrainer(const Job& job) { return rulesOf(job.strategy).trains; }

std::vector<NamedPath> trainingInputs(const Train& train) {
  std::vector<NamedPath> inputs{{"train.data.path", train.data.path},
                                {"train.model.file", train.model.file},
                                {"train.model.weights", train.model.weights}};
  std::erase_if(inputs, [](const NamedPath& input) { return input.path.empty(); });
  return inputs;
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
