#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/wait.h"
#include "runs/run_reader.h"

namespace dure::bundle {
class FileReceiver;
}

namespace dure::runs {

// Whole lines that one rank printed.
using Lines = std::function<void(int generation, int rank, std::string_view lines)>;

struct LogQuery {
  std::optional<int> rank;
  std::optional<int> generation;  // the newest if left out, or with `follow` all that come
  bool follow = false;            // until the run ends
};

// What is learnt of a run while it goes on. One call at a time, each from some thread.
class Follower {
 public:
  virtual ~Follower() = default;
  // Something about it has changed.
  virtual void seen(const RunView& run) = 0;
  virtual void output(int generation, int rank, std::string_view lines) = 0;
  // What keeps us from seeing the run, which goes on meanwhile.
  virtual void trouble(const std::string& sentence) = 0;
  // A few times a second, whether or not anything has happened.
  virtual void tick() = 0;
};

inline Error stillRunning(const RunId& id) {
  return Error(Code::kInvalid, id.text() + " is running; stop it first, or use --force");
}

struct Stopped {
  bool was_running = false;
  RunView run;  // as it is afterwards
};

// The runs of one place: of this machine, or of a namespace of a cluster. Every call may fail with
// Unavailable if there is no way to them, and ends early if its `wait` is over. Use one object from
// one thread.
class Runs {
 public:
  virtual ~Runs() = default;

  // The oldest first; without their losses.
  virtual Result<std::vector<RunView>> list() = 0;
  // "train" is the newest run of that name, "train.2" the second. NotFound, with a suggestion.
  virtual Result<RunId> find(const std::string& text) = 0;
  virtual Result<RunView> read(const RunId& id) = 0;

  // Tells `follower` of all that happens until the run has ended or nobody is in charge of it any
  // more, and then how it is. NotFound if it is removed meanwhile; Denied if it may not be watched.
  virtual Result<RunView> follow(const RunId& id, Follower& follower, const Wait& wait) = 0;
  // Denied if they may not be read.
  virtual Status logs(const RunId& id, const LogQuery& query, const Lines& lines,
                      const Wait& wait) = 0;

  // Returns before it has stopped. Success also if it is over.
  virtual Status askToStop(const RunId& id, bool at_once) = 0;
  // Returns when it is over, and what it left is gone.
  virtual Result<Stopped> stop(const RunId& id, bool at_once, const Wait& wait) = 0;
  // Removes the record, and whatever else belongs to the run. Invalid if it is going on, unless
  // `force`: then it is stopped first.
  virtual Status remove(const RunId& id, bool force, const Wait& wait) = 0;
  // Copies a file or a directory, as the job's program names it.
  virtual Status fetch(const RunId& id, const std::string& path, bundle::FileReceiver& files,
                       const Wait& wait) = 0;
  // Brings the job's output to this machine, where the job file says that it goes: below `folder`,
  // if it does not say the whole path. Returns where it is. Nothing happens where a run writes it
  // there itself. NotFound if the job has none, or has not written it.
  virtual Result<std::string> bringHome(const RunId& id, const std::string& folder,
                                        const Wait& wait) = 0;

 protected:
  static Error noOutput(const RunId& id) {
    return Error(Code::kNotFound,
                 id.text() + " has no output; say which file or directory to fetch");
  }
  static Error timedOut(const RunId& id, const std::string& doing) {
    return Error(Code::kUnavailable, "timed out while " + doing + " " + id.text());
  }
};

}  // namespace dure::runs
