#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "gang/journal.h"
#include "gang/roster.h"
#include "protocol/protocol.h"
#include "spec/job.h"

namespace dure::gang {

// ---- what is seen
struct TaskJoined {
  std::string task;
  std::string host;
  int pid = 0;
  std::string node = {};  // of the cluster, where there is one
};
struct ProcessExited {
  std::string task;
  protocol::Exited exit;
};
// The agent said that nothing of its task is left, and is about to leave.
struct TaskFinished {
  std::string task;
};
// The connection broke, or the agent's process died, and it had not said that it was finished.
struct TaskLost {
  std::string task;
  std::string why;
  bool by_program = false;  // which took more than the task may have, and its agent with it
};
// The backend has a node for every task of the next generation, or has none yet.
struct GangPlaced {
  Roster roster;
  bool changes = false;  // the next placement may choose other nodes
};
struct GangWaits {
  std::string why;
};
// The backend could not start the task, or its agent cannot start any programs.
struct TaskRefused {
  std::string task;
  std::string why;
  bool for_good = false;
  bool is_there = false;  // its agent, which then ends by itself
};
// The backend sees nothing of the task any more.
struct TaskGone {
  std::string task;
};
// Processes of the generation, or of one before, that cannot be killed.
struct ProcessesLeft {
  std::string who;
};
// A rank reported what nobody can read.
struct ReportDropped {
  std::string task;
  int rank = 0;
  std::string why;
};
struct TaskBeat {
  std::string task;
  std::vector<std::int64_t> silent_ms;
};
struct StopAsked {
  std::string why;
  bool at_once = false;
};
// The run cannot go on: the coordinator cannot write the journal or a log, or the gang can never be
// placed.
struct InfrastructureFailed {
  std::string why;
};
// Time has passed.
struct Tick {};

using Seen = std::variant<GangPlaced, GangWaits, TaskJoined, ProcessExited, TaskFinished, TaskLost,
                          TaskRefused, TaskGone, ProcessesLeft, ReportDropped, TaskBeat, StopAsked,
                          InfrastructureFailed, Tick>;

// ---- what is to be done, in this order
struct Write {  // into the journal, before anything that follows
  Entry entry;
};
// The backend is to find nodes for a gang with at most so many workers.
struct PlaceGang {
  int generation = 0;
  int workers = 0;
};
// The backend is to start every task of the roster.
struct StartGang {};
// Every agent has joined: let the programs begin.
struct Release {};
struct StopTask {
  std::string task;
  Duration grace;
};
// The backend is to kill whatever is left of the task.
struct KillTask {
  std::string task;
};
struct Finish {
  Outcome outcome = Outcome::kSucceeded;
  std::string reason;
};

using Action = std::variant<Write, PlaceGang, StartGang, Release, StopTask, KillTask, Finish>;

// The decisions about one run: what follows from what is seen. No clock, no network, no files: time
// comes in, actions come out, so that every rule can be tested as a table.
//
// A generation goes placing → starting → running → stopping → gone. Whatever ends it, the
// coordinator stops the whole gang, and starts the next one only when every task is gone.
class Gang {
 public:
  enum class Phase { kNew, kPlacing, kStarting, kRunning, kStopping, kWaiting, kFinished };

  // `before` is what earlier coordinators of this run left, or empty.
  Gang(spec::Job job, const RunState& before);

  std::vector<Action> begin(TimePoint now);
  std::vector<Action> handle(const Seen& seen, TimePoint now);

  Phase phase() const { return phase_; }
  int generation() const { return generation_; }
  int failures() const { return failures_; }
  const Roster& roster() const { return roster_; }
  // True if an agent of this generation may join as this task now.
  bool expects(const std::string& task, int generation) const;
  // True if the agent of this task has said that nothing of it is left.
  bool hasFinished(const std::string& task) const;
  // How many ranks have an agent that joined; with MPI, whose ranks are not ours, how many tasks.
  struct Strength {
    int up = 0;
    int of = 0;
    const char* what = "ranks";
  };
  Strength strength() const;

 private:
  // A task that is lost or refused in this many generations in a row does not come back by itself.
  static constexpr int kMissesUntilGivenUp = 3;

  struct Member {
    bool joined = false;
    bool finished = false;  // said so itself
    bool gone = false;      // says the backend
    bool killed = false;
    bool lost = false;
    int exits_ok = 0;
    TimePoint heard;
    std::optional<TimePoint> silence_written;
  };
  // Why the generation ends.
  struct Verdict {
    enum class Kind { kDone, kProgram, kHopeless, kInfrastructure, kAsked, kDeadline, kFatal };
    Kind kind = Kind::kDone;
    std::string reason;
    // The smallest among several is the cause: how likely its kind is one, when it ended.
    std::pair<int, std::int64_t> cause;
    bool certain = false;  // the loss of an agent does not change it any more
    std::string failure;   // as failureOf() tells it
  };

  void placeGeneration();
  void startGeneration(const GangPlaced& placed);
  void onRefused(const TaskRefused& seen);
  void onJoined(const TaskJoined& seen);
  void onExited(const ProcessExited& seen);
  void onLost(const TaskLost& seen);
  void onGone(const std::string& task);
  void onLeft(const ProcessesLeft& seen);
  void onBeat(const TaskBeat& seen);
  void onStopAsked(const StopAsked& seen);
  void onTick();
  void checkHearts();
  void stop(Verdict verdict, Duration grace);
  void endGeneration();
  void finish(Outcome outcome, const std::string& reason);
  bool done() const;
  void write(Entry entry);
  void enter(Phase phase);
  // Remembers that the task was missing, and shrinks the gang if it will not come back.
  bool shrink(const std::string& task);
  Duration backoff(bool counted);
  std::string whoIs(const Task& task, int process) const;
  bool isMistake(const protocol::Exited& exit) const;
  std::string failureOf(int rank, const protocol::Exited& exit) const;

  const spec::Job job_;
  // The rest is the state.
  Phase phase_ = Phase::kNew;
  TimePoint now_;
  TimePoint began_;
  TimePoint since_;                    // when the phase was entered
  std::optional<TimePoint> ran_from_;  // when the generation was released
  TimePoint ticked_;
  TimePoint next_start_;
  int generation_ = 0;
  int workers_;        // at most
  std::string waits_;  // why the gang cannot be placed yet, as last written
  bool placement_changes_ = false;
  int failures_ = 0;
  bool ever_ran_ = false;
  int quick_ends_ = 0;                 // generations in a row that ended soon after their start
  std::map<std::string, int> missed_;  // generations in a row in which the task was lost
  Roster roster_;
  std::map<std::string, Member> members_;
  std::optional<Verdict> verdict_;
  std::string last_failure_;  // of the generation before
  std::string left_;          // who of an earlier generation could not be killed
  std::vector<Action> actions_;
};

}  // namespace dure::gang
