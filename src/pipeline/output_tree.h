#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "pipeline/part_job.h"

namespace dure::pipeline {

// The outputs of one run of a pipeline, as a directory; of this machine, or in a pod on a claim.
//
//   volume/STEP, volume/STEP/INDEX      of what has succeeded
//   work/STEP/out, /scratch             of what has not yet
//   reports/PART.json                   what jobs have reported last
class OutputTree {
 public:
  explicit OutputTree(std::string root) : root_(std::move(root)) {}

  // Without the run's name. `folder` is that of a part.
  Folders foldersOf(const std::string& folder) const;
  std::string volume() const { return root_ + "/volume"; }

  // Makes room for an attempt. What an earlier one has written is removed, unless it goes on.
  Status prepare(const std::string& folder, bool goes_on);
  // Makes the output visible, all at once and durably, and tells the digest of its content.
  Result<std::string> publish(const std::string& folder);
  // Takes over what another run has there: NotFound if that has not this digest (any more).
  Status takeOver(const OutputTree& other, const std::string& part, const std::string& folder,
                  const std::string& digest);
  bool has(const std::string& folder) const;
  Status report(const std::string& part, const std::string& text);

  struct File {
    std::string name;  // below the volume
    std::int64_t bytes = 0;
    std::int64_t changed = 0;  // seconds since 1970
  };
  // What lies on the volume, by name.
  std::vector<File> list() const;

 private:
  std::string finished(const std::string& folder) const { return volume() + "/" + folder; }
  std::string reportOf(const std::string& part) const {
    return root_ + "/reports/" + part + ".json";
  }
  Status putInPlace(const std::string& folder);

  const std::string root_;
};

}  // namespace dure::pipeline
