// What follows from time having passed.
#include <algorithm>

#include <fmt/core.h>

#include "base/text.h"
#include "gang/gang.h"

namespace dure::gang {
namespace {

// Beyond the grace, before the backend is asked to kill what is left.
constexpr Duration kStopMargin{3'000};
// A coordinator that was itself stopped for this long (a laptop asleep, Ctrl-Z) has heard nothing,
// but that is nobody else's fault.
constexpr Duration kOwnAbsence{5'000};

Duration since(TimePoint then, TimePoint now) {
  return std::chrono::duration_cast<Duration>(now - then);
}

}  // namespace

// Twice as long after each generation that ended soon after it began. The loss of an agent is
// nobody's fault, so the next generation follows at once, unless that happens again and again.
Duration Gang::backoff(bool counted) {
  const bool quick = !ran_from_ || since(*ran_from_, now_) < job_.restarts.max_backoff;
  quick_ends_ = quick ? quick_ends_ + 1 : 1;
  if (!counted && quick_ends_ == 1) return Duration(0);
  const int doublings = std::min(quick_ends_ - 1, 20);
  return std::min(job_.restarts.backoff * (1 << doublings), job_.restarts.max_backoff);
}

void Gang::onTick() {
  const Duration absence = since(ticked_, now_);
  if (absence > kOwnAbsence) {
    for (auto& [name, member] : members_) member.heard += absence;
    since_ += absence;
  }
  ticked_ = now_;
  const bool over = job_.deadline.count() > 0 && since(began_, now_) > job_.deadline;
  if (over && (phase_ == Phase::kPlacing || phase_ == Phase::kStarting ||
               phase_ == Phase::kRunning || phase_ == Phase::kWaiting)) {
    return stop(
        {.kind = Verdict::Kind::kDeadline,
         .reason = fmt::format("the deadline of {} has passed", describeDuration(job_.deadline))},
        job_.timeouts.stop);
  }
  switch (phase_) {
    case Phase::kWaiting:
      if (now_ >= next_start_) placeGeneration();
      return;
    case Phase::kStarting:
      if (job_.timeouts.start.count() > 0 && since(since_, now_) > job_.timeouts.start) {
        std::vector<std::string> missing;
        for (const auto& [name, member] : members_) {
          if (!member.joined) missing.push_back(name);
        }
        // Waiting so long again would not help: the gang gives up those that have not joined.
        for (const std::string& name : missing) {
          members_.at(name).lost = true;
          missed_[name] = kMissesUntilGivenUp;
        }
        return stop({.kind = Verdict::Kind::kInfrastructure,
                     .reason = fmt::format("{} did not join within {}", join(missing, ", "),
                                           describeDuration(job_.timeouts.start))},
                    job_.timeouts.stop);
      }
      return checkHearts();
    case Phase::kRunning:
      return checkHearts();
    case Phase::kStopping:
      if (since(since_, now_) > job_.timeouts.stop + kStopMargin) {
        for (auto& [name, member] : members_) {
          if (member.gone || member.killed) continue;
          member.killed = true;
          actions_.push_back(KillTask{name});
        }
      }
      return;
    case Phase::kNew:
    case Phase::kPlacing:
    case Phase::kFinished:
      return;
  }
}

void Gang::checkHearts() {
  const Duration limit = job_.timeouts.heartbeat;
  if (limit.count() == 0) return;
  for (auto& [name, member] : members_) {
    if (!member.joined || member.gone || member.finished) continue;
    const Duration silence = since(member.heard, now_);
    const Task& task = *roster_.find(name);
    if (silence > limit) {
      onLost({.task = name,
              .why = fmt::format("its agent has been silent for {}", describeDuration(silence))});
      return;
    }
    if (silence > limit / 2 && member.silence_written != member.heard) {
      member.silence_written = member.heard;
      Entry entry{.kind = EntryKind::kSilent};
      entry.task = name;
      if (task.processes > 0) entry.rank = task.first_rank;
      entry.reason =
          fmt::format("its agent has not been heard of for {}", describeDuration(silence));
      write(entry);
    }
  }
}

}  // namespace dure::gang
