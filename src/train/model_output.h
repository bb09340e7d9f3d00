#pragma once

#include <functional>
#include <string>

#include "base/result.h"
#include "train/rank_environment.h"

namespace dure::train {

// Where the first worker puts the model. While it is written it is in a directory beside its place:
//
//   model.h5.RUN-GENERATION-TOKEN.tmp/   RUN begins the run's id; a name no other writer has
//     lock                               held while that writer lives
//     model.h5
class ModelOutput {
 public:
  using Save = std::function<Status(const std::string& path)>;
  // Of `here.output`, which is not empty. `here` outlives it.
  explicit ModelOutput(const RankEnvironment& here);

  // Whether the model can be written when it is trained: later would be late. Invalid if not.
  Status check() const;

  // Has `save` write the model beside its place, asks `allowed`, and renames it. What killed
  // writers have left beside it goes. Conflict if a later generation of this run is writing it.
  Status write(const Save& save, const std::function<Status()>& allowed) const;

  // For a model that cannot be written there: in the directory of checkpoints, in the task's, or
  // in $TMPDIR, the first that takes it. Says where.
  Result<std::string> keepElsewhere(const Save& save) const;

 private:
  Status sweep(const std::string& own) const;
  std::string writerName() const;

  const RankEnvironment& here_;
  const std::string path_;    // whole
  const std::string folder_;  // that it is in
  const std::string name_;    // without that
};

}  // namespace dure::train
