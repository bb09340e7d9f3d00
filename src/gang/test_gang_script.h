#pragma once

#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "gang/gang.h"

namespace dure::gang {

// A script of what is seen, and the decisions as words, so that a test reads as a specification:
// "start worker-0", "release", "stop worker-1 10s", "kill worker-0", "ended: why", "finish failed".
class Script {
 public:
  explicit Script(spec::Job of, const RunState& before = {}, bool places = true)
      : job(std::move(of)), gang(job, before), places_at_once(places) {
    add(gang.begin(clock.now()));
  }

  void see(const Seen& seen) { add(gang.handle(seen, clock.now())); }
  void pass(Duration time) {
    clock.advance(time);
    see(Tick{});
  }
  void joinAll() {
    for (const Task& task : gang.roster().tasks) see(TaskJoined{task.name(), "host", 7});
  }
  void goneAll() {
    const auto tasks = gang.roster().tasks;
    for (const Task& task : tasks) see(TaskGone{task.name()});
  }
  void exits(const std::string& task, int code, const std::string& errors = "",
             std::int64_t at_ms = 100, int signal = 0) {
    see(ProcessExited{
        task, protocol::Exited{
                  .status = {code, signal}, .at_ms = at_ms, .ran_ms = ran_ms, .errors = errors}});
  }
  // What was decided since the last call.
  std::vector<std::string> take() { return std::exchange(words, {}); }

  std::int64_t ran_ms = 41'000;  // of what exits
  FakeClock clock;
  const spec::Job job;
  Gang gang;
  std::vector<std::string> words;
  const bool places_at_once;  // whenever the gang has to be placed
  int asked = 0;              // workers, when the gang last had to be placed

 private:
  void add(const std::vector<Action>& actions) {
    for (const Action& action : actions) {
      if (const auto* p = std::get_if<PlaceGang>(&action)) {
        asked = p->workers;
        if (places_at_once) see(GangPlaced{makeRoster(job, p->workers)});
      } else if (const auto* a = std::get_if<Write>(&action)) {
        const Entry& entry = a->entry;
        if (entry.kind == EntryKind::kJoined || entry.kind == EntryKind::kExited) continue;
        words.push_back(entryKindName(entry.kind) + (entry.reason.empty() ? "" : ": ") +
                        entry.reason + (entry.counted ? " (counted)" : ""));
      } else if (std::holds_alternative<StartGang>(action)) {
        for (const Task& task : gang.roster().tasks) words.push_back("start " + task.name());
      } else if (std::holds_alternative<Release>(action)) {
        words.push_back("release");
      } else if (const auto* t = std::get_if<StopTask>(&action)) {
        words.push_back(fmt::format("stop {} {}ms", t->task, t->grace.count()));
      } else if (const auto* k = std::get_if<KillTask>(&action)) {
        words.push_back("kill " + k->task);
      } else {
        words.push_back("finish " + outcomeName(std::get<Finish>(action).outcome));
      }
    }
  }
};

inline spec::Job plainJob(int workers) {
  spec::Job job;
  job.name = "job";
  job.program.command = {"true"};
  job.workers = {workers, workers};
  return job;
}

}  // namespace dure::gang
