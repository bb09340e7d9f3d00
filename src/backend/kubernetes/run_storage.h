#pragma once

#include <string>
#include <vector>

#include "spec/job.h"

// What of a job must outlive its pods, and what of this machine its pods need: the same job file
// runs here and in a cluster, which has neither this machine's disk nor a place that stays.
namespace dure::kubernetes {

// True if a volume of the job is at `path` or above it.
bool isOnVolume(const spec::Job& job, const std::string& path);
// True if what is written to `path` outlives the pod.
bool isKept(const spec::Job& job, const std::string& path);

// The claim of the run's own, for `output` and `checkpoint.path` as far as no volume of the job
// holds them.
struct OwnStorage {
  bool output = false;
  bool checkpoint = false;
  bool needed() const { return output || checkpoint; }
};
OwnStorage ownStorage(const spec::Job& job);

// ReadWriteOnce if the first task alone writes there, as the native trainer does where all workers
// have the same weights. What others may read on a restart they have to see.
std::string accessModeOf(const spec::Job& job);

// The same for data that was sent along, which tasks of all nodes read.
std::string dataAccessModeOf(const spec::Job& job);

// A file or directory of this machine that tasks read and no volume of the job holds.
struct LocalData {
  std::string field;  // of the job, which names it
  std::string path;   // as it does
  std::string here;   // whole
};
// Only what is there: the rest may be in the image.
std::vector<LocalData> localDataOf(const spec::Job& job);

// Where `data` lies in a cluster, in which claim.
struct SentData {
  LocalData data;
  std::string claim;
};

// The job as its manager is to run it: with volumes for what it keeps, of the claim `own`, and for
// what was sent.
spec::Job placedInCluster(spec::Job job, const std::string& own, const std::vector<SentData>& sent);

}  // namespace dure::kubernetes
