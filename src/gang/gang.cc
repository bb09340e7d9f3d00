#include "gang/gang.h"

#include <algorithm>

#include <fmt/core.h>

#include "base/text.h"
#include "gang/blame.h"
#include "gang/launch_strategy.h"

namespace dure::gang {
namespace {

// A program that failed sooner has had no time to be overtaken by chance.
constexpr Duration kEarly{60'000};
// As likelyCause() rates a failure that is neither a crash nor follows from another's.
constexpr int kOwnFault = 1;

template <typename... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <typename... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

}  // namespace

Gang::Gang(spec::Job job, const RunState& before)
    : job_(std::move(job)),
      began_(before.created),
      generation_(before.generation),
      workers_(before.resized > 0 ? before.resized : job_.workers.max),
      failures_(before.failures),
      ever_ran_(before.generation > 0) {}

std::vector<Action> Gang::begin(TimePoint now) {
  now_ = now;
  ticked_ = now;
  if (began_ == TimePoint{}) began_ = now;
  placeGeneration();
  return std::exchange(actions_, {});
}

std::vector<Action> Gang::handle(const Seen& seen, TimePoint now) {
  now_ = now;
  std::visit(
      Overloaded{
          [&](const GangPlaced& s) {
            if (phase_ == Phase::kPlacing) startGeneration(s);
          },
          [&](const GangWaits& s) {
            if (phase_ != Phase::kPlacing || s.why == waits_) return;
            waits_ = s.why;
            write({.kind = EntryKind::kPending, .reason = s.why});
          },
          [&](const TaskJoined& s) { onJoined(s); }, [&](const ProcessExited& s) { onExited(s); },
          [&](const TaskFinished& s) {
            const auto member = members_.find(s.task);
            if (member != members_.end()) member->second.finished = true;
          },
          [&](const TaskLost& s) { onLost(s); }, [&](const TaskRefused& s) { onRefused(s); },
          [&](const TaskGone& s) { onGone(s.task); }, [&](const ProcessesLeft& s) { onLeft(s); },
          [&](const ReportDropped& s) {
            write({.kind = EntryKind::kWarned,
                   .task = s.task,
                   .rank = s.rank,
                   .reason = "a report was dropped, being " + s.why});
          },
          [&](const TaskBeat& s) { onBeat(s); }, [&](const StopAsked& s) { onStopAsked(s); },
          [&](const InfrastructureFailed& s) {
            if (phase_ == Phase::kFinished) return;
            stop({.kind = Verdict::Kind::kFatal, .reason = s.why}, Duration(0));
          },
          [&](const Tick&) { onTick(); }},
      seen);
  return std::exchange(actions_, {});
}

bool Gang::expects(const std::string& task, int generation) const {
  if (phase_ != Phase::kStarting || generation != generation_) return false;
  const auto member = members_.find(task);
  return member != members_.end() && !member->second.joined && !member->second.gone;
}

bool Gang::hasFinished(const std::string& task) const {
  const auto member = members_.find(task);
  return member != members_.end() && member->second.finished;
}

Gang::Strength Gang::strength() const {
  // Of the ranks that a launcher starts, only it knows.
  const bool launched = strategyOf(job_).hasLauncher();
  Strength strength{.what = launched ? "tasks" : "ranks"};
  for (const Task& task : roster_.tasks) {
    const Member& member = members_.at(task.name());
    const int weight = launched ? 1 : task.processes;
    strength.of += weight;
    if (member.joined && !member.gone) strength.up += weight;
  }
  return strength;
}

void Gang::enter(Phase phase) {
  phase_ = phase;
  since_ = now_;
}

void Gang::write(Entry entry) {
  entry.time = now_;
  entry.generation = generation_;
  actions_.push_back(Write{std::move(entry)});
}

std::string Gang::whoIs(const Task& task, int process) const {
  if (task.processes == 0) return task.name();
  return fmt::format("rank {} ({})", task.first_rank + process, task.name());
}

void Gang::placeGeneration() {
  ++generation_;
  roster_ = {};
  members_.clear();
  verdict_.reset();
  ran_from_.reset();
  waits_.clear();
  enter(Phase::kPlacing);
  actions_.push_back(PlaceGang{.generation = generation_, .workers = workers_});
}

void Gang::startGeneration(const GangPlaced& placed) {
  roster_ = placed.roster;
  placement_changes_ = placed.changes;
  enter(Phase::kStarting);
  write({.kind = EntryKind::kStarting, .workers = roster_.workers, .gpus = roster_.split});
  for (const Task& task : roster_.tasks) members_[task.name()].heard = now_;
  actions_.push_back(StartGang{});
}

void Gang::onJoined(const TaskJoined& seen) {
  Member& member = members_.at(seen.task);
  member.joined = true;
  member.heard = now_;
  const Task& task = *roster_.find(seen.task);
  Entry entry{.kind = EntryKind::kJoined};
  entry.task = seen.task;
  entry.host = seen.host;
  entry.node = seen.node;
  entry.pid = seen.pid;
  for (int process = 0; process < std::max(1, task.processes); ++process) {
    if (task.processes > 0) entry.rank = task.first_rank + process;
    write(entry);
  }
  const bool complete =
      std::all_of(members_.begin(), members_.end(), [](const auto& m) { return m.second.joined; });
  if (!complete) return;
  enter(Phase::kRunning);
  ran_from_ = now_;
  ever_ran_ = true;
  for (auto& [name, m] : members_) m.heard = now_;
  write({.kind = EntryKind::kRunning, .workers = roster_.workers});
  actions_.push_back(Release{});
}

bool Gang::done() const {
  return std::all_of(roster_.tasks.begin(), roster_.tasks.end(), [&](const Task& task) {
    return !decidesEnd(job_, task) || members_.at(task.name()).exits_ok == task.processes;
  });
}

void Gang::onExited(const ProcessExited& seen) {
  const Task* task = roster_.find(seen.task);
  if (task == nullptr || seen.exit.process < 0 || seen.exit.process >= task->processes) return;
  Entry entry{.kind = EntryKind::kExited};
  entry.task = seen.task;
  entry.rank = task->first_rank + seen.exit.process;
  entry.code = seen.exit.status.code;
  entry.signal = seen.exit.status.signal;
  write(entry);
  // The platform told the agent to end, as Kubernetes does when it drains a node; it was not us. A
  // program that ends well then has not done its work, it only has good manners.
  if (seen.exit.asked && phase_ == Phase::kRunning) {
    return onLost({.task = seen.task, .why = "it was asked to stop from outside"});
  }
  const bool ok = seen.exit.status.ok() && seen.exit.error.empty();
  if (seen.exit.asked) return;
  if (ok) {
    ++members_.at(seen.task).exits_ok;
    if (!done()) return;
    if (phase_ == Phase::kRunning) return stop({.kind = Verdict::Kind::kDone}, job_.timeouts.stop);
    // Those that served it missed it, and failed, before it was heard of.
    if (verdict_ && verdict_->kind == Verdict::Kind::kProgram) {
      verdict_ = Verdict{.kind = Verdict::Kind::kDone};
    }
    return;
  }
  // What cannot be started now cannot be started later either.
  const bool hopeless = strategyOf(job_).isHopeless(seen.exit.status.code) ||
                        !seen.exit.error.empty() || isMistake(seen.exit);
  Verdict verdict{
      .kind = hopeless ? Verdict::Kind::kHopeless : Verdict::Kind::kProgram,
      .reason = failureSentence(whoIs(*task, seen.exit.process), seen.exit, generation_),
      .cause = {likelyCause(seen.exit), seen.exit.at_ms},
      .failure = failureOf(*entry.rank, seen.exit)};
  if (isMistake(seen.exit)) verdict.reason += "; not restarted: it would fail again";
  if (phase_ == Phase::kRunning) {
    stop(std::move(verdict), job_.timeouts.stop);
  } else if (verdict_ && verdict_->kind == Verdict::Kind::kProgram &&
             (hopeless || verdict.cause < verdict_->cause)) {
    // The one that failed first is the cause; those that miss it fail after it, but may be heard of
    // before.
    verdict_ = std::move(verdict);
  }
}

// Only of the first generation, and before it did anything: what has run before may run again.
bool Gang::isMistake(const protocol::Exited& exit) const {
  return generation_ == 1 && exit.ran_ms < kEarly.count() && !exit.reported && wouldFailAgain(exit);
}

// What is the same when a rank fails again as it did before; empty if that would tell nothing: it
// had made progress, says no reason, or was the victim of others, or of chance.
std::string Gang::failureOf(int rank, const protocol::Exited& exit) const {
  const std::string line = explainingLine(exit);
  const bool chance = exit.status.signal != 0 || likelyCause(exit) != kOwnFault ||
                      line.find("Address already in use") != std::string::npos;
  if (line.empty() || chance || exit.reported || exit.ran_ms >= kEarly.count()) return "";
  return fmt::format("{} {} {}", rank, exit.status.code, line);
}

void Gang::onLost(const TaskLost& seen) {
  const Task* task = roster_.find(seen.task);
  if (task == nullptr || members_.at(seen.task).finished) return;
  Member& member = members_.at(seen.task);
  Verdict verdict{
      .kind = seen.by_program ? Verdict::Kind::kProgram : Verdict::Kind::kInfrastructure,
      .reason =
          fmt::format("{} was lost in generation {}: {}", whoIs(*task, 0), generation_, seen.why),
      .certain = seen.by_program};
  if (phase_ == Phase::kStarting || phase_ == Phase::kRunning) {
    member.lost = !seen.by_program;
    return stop(std::move(verdict), job_.timeouts.stop);
  }
  if (phase_ != Phase::kStopping || member.killed) return;
  // A rank that fails because another one's agent vanished is not to blame. Nor is the
  // infrastructure if it turns out later that a program made the agent vanish.
  const bool follows =
      !verdict_->certain && (verdict_->kind == Verdict::Kind::kProgram ||
                             (verdict_->kind == Verdict::Kind::kInfrastructure && seen.by_program));
  if (!follows) return;
  member.lost = !seen.by_program;
  verdict_ = std::move(verdict);
}

void Gang::onRefused(const TaskRefused& seen) {
  const auto member = members_.find(seen.task);
  if (member == members_.end()) return;
  // What never could run is a mistake; what has run before may run again.
  if (seen.for_good && !ever_ran_ && phase_ == Phase::kStarting) {
    member->second.lost = true;
    stop({.kind = Verdict::Kind::kFatal,
          .reason = fmt::format("{} cannot start: {}", seen.task, seen.why)},
         Duration(0));
  } else {
    onLost({.task = seen.task, .why = seen.why});
  }
  if (!seen.is_there) onGone(seen.task);
}

void Gang::onGone(const std::string& name) {
  const auto member = members_.find(name);
  if (member == members_.end() || member->second.gone) return;
  if (!member->second.finished && phase_ != Phase::kStopping) {
    onLost({.task = name, .why = "its agent ended"});
  }
  member->second.gone = true;
  const bool all =
      std::all_of(members_.begin(), members_.end(), [](const auto& m) { return m.second.gone; });
  if (phase_ == Phase::kStopping && all) endGeneration();
}

void Gang::onLeft(const ProcessesLeft& seen) {
  if (!left_.empty()) left_ += ", ";
  left_ += seen.who;
  write({.kind = EntryKind::kWarned, .reason = seen.who + " cannot be killed and is left behind"});
}

void Gang::onBeat(const TaskBeat& seen) {
  const Task* task = roster_.find(seen.task);
  if (task == nullptr) return;
  members_.at(seen.task).heard = now_;
  const Duration limit = job_.timeouts.progress;
  if (phase_ != Phase::kRunning || limit.count() == 0) return;
  for (std::size_t process = 0; process < seen.silent_ms.size(); ++process) {
    if (seen.silent_ms[process] <= limit.count()) continue;
    return stop({.kind = Verdict::Kind::kProgram,
                 .reason = fmt::format("{} made no progress for {} in generation {}",
                                       whoIs(*task, static_cast<int>(process)),
                                       describeDuration(limit), generation_)},
                job_.timeouts.stop);
  }
}

void Gang::onStopAsked(const StopAsked& seen) {
  switch (phase_) {
    case Phase::kFinished:
      return;
    case Phase::kNew:
    case Phase::kPlacing:
    case Phase::kWaiting:
      return finish(Outcome::kStopped, seen.why);
    case Phase::kStarting:
    case Phase::kRunning:
      return stop({.kind = Verdict::Kind::kAsked, .reason = seen.why},
                  seen.at_once ? Duration(0) : job_.timeouts.stop);
    case Phase::kStopping:
      // What ended well has ended well; everything else is now not to be tried again.
      if (verdict_->kind == Verdict::Kind::kProgram ||
          verdict_->kind == Verdict::Kind::kInfrastructure) {
        verdict_ = Verdict{.kind = Verdict::Kind::kAsked, .reason = seen.why};
      }
      if (!seen.at_once) return;
      for (auto& [name, member] : members_) {
        if (member.gone) continue;
        member.killed = true;
        actions_.push_back(KillTask{name});
      }
      return;
  }
}

void Gang::stop(Verdict verdict, Duration grace) {
  const bool counted = verdict.kind == Verdict::Kind::kProgram;
  if (phase_ == Phase::kWaiting || phase_ == Phase::kPlacing || phase_ == Phase::kNew) {
    verdict_ = std::move(verdict);
    return endGeneration();
  }
  write({.kind = EntryKind::kStopping, .counted = counted, .reason = verdict.reason});
  verdict_ = std::move(verdict);
  if (phase_ != Phase::kStopping) enter(Phase::kStopping);
  bool all_gone = true;
  for (const auto& [name, member] : members_) {
    if (member.gone) continue;
    all_gone = false;
    // Who has said that nothing is left is about to go by itself.
    if (!member.finished) actions_.push_back(StopTask{name, grace});
  }
  if (all_gone) endGeneration();
}

void Gang::endGeneration() {
  const Verdict verdict = *verdict_;
  const bool counted = verdict.kind == Verdict::Kind::kProgram;
  if (counted) ++failures_;
  for (const auto& [name, member] : members_) {
    missed_[name] = member.lost ? missed_[name] + 1 : 0;
  }
  write({.kind = EntryKind::kEnded, .counted = counted, .reason = verdict.reason});
  switch (verdict.kind) {
    case Verdict::Kind::kDone:
      return finish(Outcome::kSucceeded, "");
    case Verdict::Kind::kAsked:
      return finish(Outcome::kStopped, verdict.reason);
    case Verdict::Kind::kDeadline:
    case Verdict::Kind::kHopeless:
      return finish(Outcome::kFailed, verdict.reason);
    case Verdict::Kind::kFatal:
      return finish(Outcome::kInfrastructureFailed, verdict.reason);
    case Verdict::Kind::kProgram:
      if (failures_ > job_.restarts.limit) {
        std::string reason = verdict.reason;
        if (job_.restarts.limit > 0) {
          reason += fmt::format(" (failure {}, the limit is {} restarts)", failures_,
                                job_.restarts.limit);
        }
        return finish(Outcome::kFailed, reason);
      }
      if (!verdict.failure.empty() &&
          std::exchange(last_failure_, verdict.failure) == verdict.failure) {
        return finish(Outcome::kFailed,
                      verdict.reason + "; not restarted: it failed so twice, without progress");
      }
      last_failure_ = verdict.failure;
      break;
    case Verdict::Kind::kInfrastructure: {
      last_failure_.clear();
      std::vector<std::string> given_up;
      for (const auto& [task, misses] : missed_) {
        if (misses >= kMissesUntilGivenUp) given_up.push_back(task);
      }
      if (!given_up.empty()) workers_ = std::min(workers_, roster_.workers);
      for (const std::string& task : given_up) {
        if (shrink(task)) continue;
        // It was never there: waiting on would be for ever. Lost ones may come back.
        if (!ever_ran_ && !placement_changes_)
          return finish(Outcome::kInfrastructureFailed, verdict.reason);
      }
      break;
    }
  }
  // Two generations at once would write the same files, and wait for the same ports.
  if (!left_.empty()) {
    return finish(Outcome::kInfrastructureFailed,
                  fmt::format("{}; no other generation starts beside {}, which cannot be killed",
                              verdict.reason, left_));
  }
  const Duration delay = backoff(counted);
  next_start_ = now_ + delay;
  enter(Phase::kWaiting);
  if (delay.count() > 0) write({.kind = EntryKind::kWaiting, .delay = delay});
  onTick();
}

bool Gang::shrink(const std::string& name) {
  const Task* task = roster_.find(name);
  if (task == nullptr || task->role != Role::kWorker || workers_ <= job_.workers.min) return false;
  --workers_;
  missed_.clear();
  write({.kind = EntryKind::kResized,
         .workers = workers_,
         .reason = fmt::format("{} does not come back", name)});
  return true;
}

void Gang::finish(Outcome outcome, const std::string& reason) {
  enter(Phase::kFinished);
  Entry entry{.kind = EntryKind::kFinished};
  entry.outcome = outcome;
  entry.reason = reason;
  write(entry);
  actions_.push_back(Finish{outcome, reason});
}

}  // namespace dure::gang
