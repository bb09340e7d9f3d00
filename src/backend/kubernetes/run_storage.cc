#include "backend/kubernetes/run_storage.h"

#include <algorithm>
#include <filesystem>

#include <fmt/core.h>

#include "backend/kubernetes/data_claim.h"
#include "backend/kubernetes/objects.h"

namespace dure::kubernetes {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPodOutput = "/dure-output";
constexpr const char* kPodData = "/dure-data";
constexpr const char* kOnceOnly = "ReadWriteOnce";
constexpr const char* kManyNodes = "ReadWriteMany";

fs::path inPod(const std::string& path) {
  return (fs::path(kPodWorkdir) / path).lexically_normal();
}

bool isBelow(const fs::path& path, const fs::path& root) {
  return std::mismatch(root.begin(), root.end(), path.begin(), path.end()).first == root.end();
}

bool isOnSome(const spec::Job& job, const std::string& path, bool written) {
  const auto volumes = spec::allVolumes(job);
  return std::any_of(volumes.begin(), volumes.end(), [&](const spec::Volume& volume) {
    return isBelow(inPod(path), inPod(volume.path)) && !(written && volume.read_only);
  });
}

bool hasSeveralTasks(const spec::Job& job) {
  return job.gpus > 1 || job.workers.max + job.roles.chief + job.roles.ps + job.roles.evaluator > 1;
}

// Where the output's directory is mounted: where the job has it, so that a program finds it under
// the same name here and there. Not in place of the whole workdir.
fs::path outputDirectory(const spec::Job& job) {
  const fs::path directory = inPod(job.output).parent_path();
  return isBelow(fs::path(kPodWorkdir), directory) ? fs::path(kPodOutput) : directory;
}

// "model.h5" of "out/model.h5", and "data" of "my/data/".
std::string lastName(const fs::path& path) {
  return path.has_filename() ? path.filename() : path.parent_path().filename();
}

}  // namespace

bool isOnVolume(const spec::Job& job, const std::string& path) {
  return isOnSome(job, path, false);
}

bool isKept(const spec::Job& job, const std::string& path) { return isOnSome(job, path, true); }

OwnStorage ownStorage(const spec::Job& job) {
  return {.output = !job.output.empty() && !isKept(job, job.output),
          .checkpoint = !job.checkpoint.path.empty() && !isKept(job, job.checkpoint.path)};
}

std::string accessModeOf(const spec::Job& job) {
  if (!job.kubernetes.storage.access.empty()) return job.kubernetes.storage.access;
  const bool first_alone = spec::runsTrainer(job) &&
                           spec::rulesOf(job.train.sync.mode).same_weights &&
                           job.train.wire == spec::WireType::kFloat32;
  return hasSeveralTasks(job) && ownStorage(job).checkpoint && !first_alone ? kManyNodes
                                                                            : kOnceOnly;
}

std::string dataAccessModeOf(const spec::Job& job) {
  if (!job.kubernetes.storage.access.empty()) return job.kubernetes.storage.access;
  return hasSeveralTasks(job) ? kManyNodes : kOnceOnly;
}

std::vector<LocalData> localDataOf(const spec::Job& job) {
  std::vector<LocalData> found;
  if (!job.program.ship) return found;
  std::vector<spec::NamedPath> inputs;
  if (spec::runsTrainer(job)) inputs = spec::trainingInputs(job.train);
  for (const std::string& path : job.program.data) inputs.push_back({"program.data", path});
  for (const spec::NamedPath& input : inputs) {
    const fs::path here = fs::absolute(fs::path(job.program.workdir) / input.path);
    std::error_code error;
    if (isOnVolume(job, input.path) || !fs::exists(here, error)) continue;
    found.push_back({input.field, input.path, here.lexically_normal()});
  }
  return found;
}

spec::Job placedInCluster(spec::Job job, const std::string& own,
                          const std::vector<SentData>& sent) {
  const OwnStorage storage = ownStorage(job);
  const auto tasks = accessModeOf(job) == kOnceOnly && hasSeveralTasks(job)
                         ? spec::VolumeTasks::kChief
                         : spec::VolumeTasks::kAll;
  // The output first: checkpoints may be below it, and are mounted into it then.
  if (storage.output) {
    const fs::path directory = outputDirectory(job);
    job.volumes.push_back({.path = directory,
                           .claim = own,
                           .sub_path = "output",
                           .tasks = spec::VolumeTasks::kChief});
    job.output = directory / lastName(job.output);
  }
  if (storage.checkpoint) {
    job.volumes.push_back(
        {.path = job.checkpoint.path, .claim = own, .sub_path = "checkpoints", .tasks = tasks});
  }
  for (std::size_t i = 0; i < sent.size(); ++i) {
    const LocalData& data = sent[i].data;
    const bool is_file = fs::is_regular_file(data.here);
    const std::string name = lastName(data.here);
    spec::Volume volume{.path = data.path,
                        .claim = sent[i].claim,
                        .sub_path = is_file ? fmt::format("{}/{}", kDataFolder, name) : kDataFolder,
                        .read_only = true};
    const fs::path seen = fmt::format("{}/{}", kPodData, i);
    const auto moveTo = [&](std::string& field) {
      // Under its own name, which goes into the model.
      volume.path = is_file ? seen : seen / name;
      volume.sub_path = kDataFolder;
      field = seen / name;
    };
    // What the trainer reads may lie anywhere; an image need not have a place for it.
    if (data.field == "train.data.path") moveTo(job.train.data.path);
    if (data.field == "train.model.file") moveTo(job.train.model.file);
    if (data.field == "train.model.weights") moveTo(job.train.model.weights);
    job.volumes.push_back(std::move(volume));
  }
  job.program.workdir = kPodWorkdir;
  return job;
}

}  // namespace dure::kubernetes
