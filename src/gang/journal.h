#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/clock.h"
#include "base/result.h"

namespace dure::gang {

// What happened to a run, in the order in which it did. Words as they stand in the record.
enum class EntryKind {
  kCreated,   // the run exists: `run_id`
  kResumed,   // a new coordinator resumed it
  kPending,   // the next generation cannot be placed yet: `reason`
  kStarting,  // a generation is asked for: `workers` of them, with `gpus`
  kJoined,    // an agent came: `task`, `rank`, `host`, `node`, `pid`
  kRunning,   // the gang is complete and released
  kExited,    // a process ended: `task`, `rank`, `code`, `signal`
  kStopping,  // the coordinator stops the generation; `reason` as known so far
  kEnded,     // every task of the generation is gone; `reason`, and `counted` against the limit
  kResized,   // the gang goes on with `workers`
  kWaiting,   // the next generation starts in `delay`
  kSilent,    // `task`, `rank` has not been heard of for a while
  kWarned,    // something that did not end the generation: `reason`, of `rank` if it has one
  kFinished,  // the run is over: `outcome`, `reason`
};

enum class Outcome {
  kSucceeded,
  kFailed,                // the program failed
  kStopped,               // somebody asked for it
  kInfrastructureFailed,  // disk, node, network or an agent failed, not the program
};

struct Entry {
  EntryKind kind = EntryKind::kCreated;
  TimePoint time;
  int generation = 0;
  std::string run_id;
  std::string task;
  std::optional<int> rank;
  std::string host;
  std::string node;  // of the cluster
  int pid = 0;
  std::optional<int> code;
  int signal = 0;
  int workers = 0;
  std::vector<int> gpus;  // of each worker, where they were split over nodes
  bool counted = false;
  Duration delay{0};
  std::optional<Outcome> outcome;
  std::string reason;
};

std::string entryKindName(EntryKind kind);
std::string outcomeName(Outcome outcome);

nlohmann::json toJson(const Entry& entry);
Result<Entry> entryFromJson(const nlohmann::json& json);
// One sentence, as `dure describe` prints it.
std::string describeEntry(const Entry& entry);

// The write-ahead journal of a run: the coordinator writes decisions here before it acts on them.
// Behind an interface, because it is a file on one machine and objects of the API server on
// Kubernetes.
class Journal {
 public:
  virtual ~Journal() = default;
  // Calls `written`, before it returns or later from the loop, when the entries are durable. On
  // failure the coordinator does nothing that they announced. The next call comes after `written`.
  virtual void append(const std::vector<Entry>& entries,
                      std::function<void(const Status&)> written) = 0;
};

// What the entries of a run add up to: all that a new coordinator, or a person, has to know.
struct RunState {
  int generation = 0;
  int workers = 0;        // of the last generation, and
  std::vector<int> gpus;  // those of each, where they were split over nodes
  int resized = 0;        // to which the gang was made smaller for good; 0: never
  int failures = 0;       // counted against the limit
  int joined = 0;         // tasks of the last generation
  bool running = false;
  bool ended = false;  // every task of the last generation was seen to be gone
  TimePoint created;
  TimePoint changed;
  std::optional<Outcome> outcome;
  std::string reason;
  std::vector<Entry> tasks;  // the last kJoined or kExited of each rank of the last generation
};
RunState replay(const std::vector<Entry>& entries);

}  // namespace dure::gang
