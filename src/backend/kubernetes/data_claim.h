#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "backend/kubernetes/run_storage.h"
#include "base/wait.h"
#include "bundle/file_stream.h"
#include "kube/client.h"

// Data of this machine in a cluster: a claim named after its content, filled once, through a pod,
// and read by every run that needs the same. Nothing of it passes through the API server's
// database.
//
//   dure-data-HASH    annotated `dure/complete` when all of it is there
//     data/…          its files
namespace dure::kubernetes {

// The directory of such a claim that has the files.
inline constexpr const char* kDataFolder = "data";

// What is to be in a claim.
struct DataContent {
  std::vector<bundle::NamedFile> files;
  std::int64_t bytes = 0;
  std::string hash;  // of names and contents; empty if it is more than the limit
};

// All files of it, and what belongs to a data file though the job does not name it: the words of
// reviews (word_index.json). Reads everything once, unless it is more than `limit` bytes.
Result<DataContent> contentOf(const LocalData& data, std::int64_t limit);

// Told while bytes are sent.
using Sending = std::function<void(std::int64_t sent, std::int64_t of)>;

// The claim with this data, which is sent if it is not there yet. Invalid if it is more than the
// job allows.
Result<std::string> bringData(kube::KubeClient& client, const spec::Job& job, const LocalData& data,
                              const Sending& sending, const Wait& wait);

}  // namespace dure::kubernetes
