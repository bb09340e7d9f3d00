#pragma once

#include <string>

#include "pipeline/outputs.h"
#include "runs/run_store.h"

namespace dure::pipeline {

// The shared directory of a run of this machine: NAME.N/volume in its record, with a folder for
// each step. What a part has not finished is in NAME.N/work.
class Volume : public Outputs {
 public:
  Volume(const runs::RunStore& store, runs::RunId id, bool fresh)
      : store_(store), id_(std::move(id)), fresh_(fresh) {}

  Folders foldersOf(const std::string& folder) const override;
  Status prepare(const std::string& folder, bool goes_on) override;
  Result<std::string> publish(const std::string& folder) override;
  bool has(const std::string& folder) const override;
  std::optional<Reused> reuse(const std::string& part, const std::string& folder,
                              const std::string& key) override;
  Result<std::string> digestOf(const std::string& path) const override;

 private:
  std::string finished(const std::string& folder) const;
  Status putInPlace(const std::string& folder);

  const runs::RunStore& store_;
  const runs::RunId id_;
  const bool fresh_;  // nothing is reused
};

}  // namespace dure::pipeline
