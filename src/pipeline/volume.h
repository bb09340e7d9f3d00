#pragma once

#include <string>
#include <vector>

#include "pipeline/output_tree.h"
#include "pipeline/outputs.h"
#include "runs/run_store.h"

namespace dure::pipeline {

// A part that an earlier run of the same pipeline has brought to its end.
struct DoneBefore {
  runs::RunId run;
  std::string digest;
  std::string origin;  // the run that has really done it
};
// With this key; the newest first.
std::vector<DoneBefore> doneBefore(const runs::RunStore& store, const runs::RunId& id,
                                   const std::string& part, const std::string& key);

// The shared directory of a run of this machine, in its record.
class Volume : public Outputs {
 public:
  Volume(const runs::RunStore& store, runs::RunId id, bool fresh)
      : store_(store), id_(std::move(id)), fresh_(fresh), tree_(store.paths(id_).directory) {}

  Folders foldersOf(const std::string& folder) const override;
  Status prepare(const std::string& folder, bool goes_on) override {
    return tree_.prepare(folder, goes_on);
  }
  Result<std::string> publish(const std::string& folder) override { return tree_.publish(folder); }
  Result<bool> has(const std::string& folder) override { return tree_.has(folder); }
  Status report(const std::string& part, const std::string& text) override {
    return tree_.report(part, text);
  }
  Result<std::optional<Reused>> reuse(const std::string& part, const std::string& folder,
                                      const std::string& key) override;

 private:
  const runs::RunStore& store_;
  const runs::RunId id_;
  const bool fresh_;  // nothing is reused
  OutputTree tree_;
};

}  // namespace dure::pipeline
