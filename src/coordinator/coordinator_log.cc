#include "coordinator/coordinator_log.h"

#include <fmt/core.h>

#include "base/process.h"

namespace dure::coordinator {
namespace {

struct SeenWords {
  std::string operator()(const gang::GangPlaced& seen) const {
    return fmt::format("placed: {} workers", seen.roster.workers);
  }
  std::string operator()(const gang::GangWaits& seen) const { return "waits: " + seen.why; }
  std::string operator()(const gang::TaskJoined& seen) const {
    return fmt::format("joined: {} on {}{}, process {}", seen.task, seen.host,
                       seen.node.empty() ? "" : " of node " + seen.node, seen.pid);
  }
  std::string operator()(const gang::ProcessExited& seen) const {
    const std::string how =
        seen.exit.error.empty() ? describeExit(seen.exit.status) : "it could not be started";
    return fmt::format("exited: process {} of {}, after {} ms: {}{}", seen.exit.process, seen.task,
                       seen.exit.ran_ms, how, seen.exit.asked ? " (after a request to stop)" : "");
  }
  std::string operator()(const gang::TaskFinished& seen) const { return "finished: " + seen.task; }
  std::string operator()(const gang::TaskLost& seen) const {
    return fmt::format("lost: {}: {}", seen.task, seen.why);
  }
  std::string operator()(const gang::TaskRefused& seen) const {
    return fmt::format("refused{}: {}: {}", seen.for_good ? " for good" : "", seen.task, seen.why);
  }
  std::string operator()(const gang::TaskGone& seen) const { return "gone: " + seen.task; }
  std::string operator()(const gang::ProcessesLeft& seen) const {
    return "processes that cannot be killed: " + seen.who;
  }
  std::string operator()(const gang::ReportDropped& seen) const {
    return fmt::format("dropped a report of rank {}: {}", seen.rank, seen.why);
  }
  std::string operator()(const gang::TaskBeat& seen) const { return "heartbeat: " + seen.task; }
  std::string operator()(const gang::StopAsked& seen) const {
    return fmt::format("asked to stop{}: {}", seen.at_once ? " at once" : "", seen.why);
  }
  std::string operator()(const gang::InfrastructureFailed& seen) const {
    return "infrastructure failed: " + seen.why;
  }
  std::string operator()(const gang::Tick&) const { return ""; }
};

struct ActionWords {
  std::string operator()(const gang::Write& action) const {
    return "write " + gang::entryKindName(action.entry.kind) + " to the journal";
  }
  std::string operator()(const gang::PlaceGang& action) const {
    return fmt::format("place generation {} with at most {} workers", action.generation,
                       action.workers);
  }
  std::string operator()(const gang::StartGang&) const { return "start every task"; }
  std::string operator()(const gang::Release&) const { return "release every task"; }
  std::string operator()(const gang::StopTask& action) const {
    return fmt::format("stop {} within {} ms", action.task, action.grace.count());
  }
  std::string operator()(const gang::KillTask& action) const { return "kill " + action.task; }
  std::string operator()(const gang::Finish& action) const {
    return fmt::format("finish: {}{}{}", gang::outcomeName(action.outcome),
                       action.reason.empty() ? "" : ": ", action.reason);
  }
};

}  // namespace

std::string described(const gang::Seen& seen) { return std::visit(SeenWords{}, seen); }

std::string described(const gang::Action& action) { return std::visit(ActionWords{}, action); }

}  // namespace dure::coordinator
