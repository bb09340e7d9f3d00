#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "spec/job.h"

namespace dure::runs {

// A run is the record of one job being run. Its name is the job's; its number tells apart the runs
// of one name. It lives in a directory of its own, NAME.NUMBER:
//
//   job.yaml             the job as it was run, every default filled in; or
//   pipeline.yaml        the pipeline, whose steps have records of their own, in runs/, and share
//                        the directory volume/; and
//   cluster.json         where its steps run in a cluster, if they do
//   events.jsonl         what was decided and what happened, one JSON object a line
//   metrics.jsonl        what the ranks reported
//   logs/G/rank-R.log    what rank R printed in generation G
//   lock                 held by the coordinator as long as it lives
//   id                   random: names and numbers come again, this does not
//   secret               by which agents prove that they belong to the run
//   tasks/               sockets and pipes of the tasks
struct RunId {
  std::string name;
  int number = 0;
  std::string text() const;  // "train.2"
};

struct RunPaths {
  std::string directory;
  std::string job() const { return directory + "/job.yaml"; }
  std::string pipeline() const { return directory + "/pipeline.yaml"; }
  std::string volume() const { return directory + "/volume"; }
  std::string cluster() const { return directory + "/cluster.json"; }
  std::string events() const { return directory + "/events.jsonl"; }
  std::string metrics() const { return directory + "/metrics.jsonl"; }
  std::string lock() const { return directory + "/lock"; }
  std::string id() const { return directory + "/id"; }
  std::string secret() const { return directory + "/secret"; }
  std::string tasks() const { return directory + "/tasks"; }
  std::string coordinatorLog() const { return directory + "/coordinator.log"; }
  std::string logs(int generation) const;
  std::string log(int generation, int rank) const;
};

// A run that this process is in charge of.
struct OwnedRun {
  RunId id;
  RunPaths paths;
  std::string run_id;  // the same as long as the record lives
  std::string secret;
  FileLock lock;
};

// All runs of a person, under one directory. Safe to use from several processes at once.
class RunStore {
 public:
  explicit RunStore(std::string root) : root_(std::move(root)) {}

  // $DURE_STATE_DIR, or $XDG_STATE_HOME/dure, or ~/.local/state/dure.
  static Result<std::string> defaultRoot();

  // The number that create() would give the next run of this name.
  RunId next(const std::string& name) const;
  // Makes the record and takes charge of it. A reader sees all of it or nothing.
  Result<OwnedRun> create(const spec::Job& job);
  // The same for what is no job, of this name: files of the record, and what is in them.
  Result<OwnedRun> create(const std::string& name, const std::map<std::string, std::string>& files);
  // Takes charge of a run whose coordinator has died. Exists if it lives.
  Result<OwnedRun> take(const RunId& id);

  // "train" is the newest run of that name, "train.2" the second. NotFound, with a suggestion.
  Result<RunId> find(const std::string& text) const;
  // By name, then by number.
  std::vector<RunId> list() const;
  Status remove(const RunId& id);

  RunPaths paths(const RunId& id) const;
  // The process that is in charge of the run now.
  std::optional<pid_t> coordinator(const RunId& id) const;

 private:
  void sweep() const;
  std::string runsDirectory() const { return root_ + "/runs"; }

  const std::string root_;
};

}  // namespace dure::runs
