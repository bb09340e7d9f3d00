#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "pipeline/part_job.h"

namespace dure::pipeline {

struct Reused {
  std::string digest;
  std::string run;  // that has done it
};

// Where parts write to and what they depend on: the shared directory of one run of a pipeline.
// `folder` is a part's own in it.
class Outputs {
 public:
  virtual ~Outputs() = default;
  virtual Folders foldersOf(const std::string& folder) const = 0;
  // Makes room for an attempt. What an earlier one has written is removed, unless it goes on.
  virtual Status prepare(const std::string& folder, bool goes_on) = 0;
  // Makes the output visible, all at once and durably, and tells the digest of its content.
  virtual Result<std::string> publish(const std::string& folder) = 0;
  // Whether the output is there.
  virtual Result<bool> has(const std::string& folder) = 0;
  // Keeps what the job of a part has reported last, a JSON object, where other parts can read it.
  virtual Status report(const std::string& part, const std::string& text) = 0;
  // Takes over the output of a part that an earlier run has brought to its end with the same key.
  // Nothing if there is none.
  virtual Result<std::optional<Reused>> reuse(const std::string& part, const std::string& folder,
                                              const std::string& key) = 0;
};

}  // namespace dure::pipeline
