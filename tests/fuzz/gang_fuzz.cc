// Whatever is seen, in whatever order and at whatever time, the decisions about a run keep their
// promises: no generation starts before all of the one before is gone, the run ends once, the
// workers stay within their bounds, and no more failures are forgiven than were to be.

#include <fuzzer/FuzzedDataProvider.h>

#include <iostream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "gang/gang.h"

namespace {

using namespace dure;

void require(bool holds, const char* what) {
  if (holds) return;
  std::cerr << "broken: " << what << "\n";
  std::abort();
}

// A job of any shape that the rules speak about.
spec::Job makeJob(FuzzedDataProvider& in) {
  spec::Job job;
  job.name = "fuzz";
  job.program.command = {"true"};
  job.strategy =
      in.PickValueInArray({spec::Strategy::kPlain, spec::Strategy::kTorch, spec::Strategy::kMpi});
  job.workers.min = in.ConsumeIntegralInRange(1, 3);
  job.workers.max = in.ConsumeIntegralInRange(job.workers.min, 4);
  job.processes = in.ConsumeIntegralInRange(0, 2);
  if (job.strategy == spec::Strategy::kPlain) {
    job.roles.chief = in.ConsumeIntegralInRange(0, 1);
    job.roles.ps = in.ConsumeIntegralInRange(0, 1);
  }
  job.restarts.limit = in.ConsumeIntegralInRange(0, 3);
  job.restarts.backoff = Duration(in.ConsumeIntegralInRange(0, 1000));
  job.timeouts.start = Duration(in.ConsumeIntegralInRange(0, 20'000));
  job.timeouts.stop = Duration(in.ConsumeIntegralInRange(0, 5'000));
  job.timeouts.heartbeat = Duration(in.ConsumeIntegralInRange(0, 20'000));
  job.timeouts.progress = Duration(in.ConsumeIntegralInRange(0, 20'000));
  job.deadline = Duration(in.ConsumeBool() ? in.ConsumeIntegralInRange(1, 100'000) : 0);
  return job;
}

// Plays the coordinator and the backend: carries out what is decided, and holds it to the promises.
class World {
 public:
  World(FuzzedDataProvider& in, const spec::Job& job)
      : in_(in), job_(job), now_(std::chrono::hours(24 * 365 * 50)), gang_(job, {}) {}

  void run() {
    perform(gang_.begin(now_));
    while (in_.remaining_bytes() > 0 && !finished_) {
      perform(gang_.handle(something(), now_));
    }
    if (!finished_) endAll();
  }

 private:
  std::string anyTask() {
    if (in_.ConsumeIntegralInRange(0, 15) == 0) return "worker-99";
    const auto& tasks = gang_.roster().tasks;
    if (tasks.empty()) return "worker-0";
    return tasks[in_.ConsumeIntegralInRange<std::size_t>(0, tasks.size() - 1)].name();
  }

  gang::Seen something() {
    now_ += Duration(in_.ConsumeBool() ? in_.ConsumeIntegralInRange(0, 300)
                                       : in_.ConsumeIntegralInRange(0, 30'000));
    const std::string task = anyTask();
    switch (in_.ConsumeIntegralInRange(0, 11)) {
      case 0:
      case 1:
        // The coordinator asks before it lets anybody in.
        if (!gang_.expects(task, gang_.generation()) || !alive_.contains(task)) return gang::Tick{};
        require(gang_.phase() == gang::Gang::Phase::kStarting,
                "only a starting gang takes members");
        return gang::TaskJoined{.task = task, .host = "here", .pid = 1};
      case 2:
      case 3:
        return gang::ProcessExited{
            .task = task,
            .exit = {.process = in_.ConsumeIntegralInRange(-1, 3),
                     .status = {.code = in_.ConsumeIntegralInRange(0, 1),
                                .signal = in_.ConsumeBool() ? 9 : 0},
                     .at_ms = in_.ConsumeIntegralInRange(0, 1000),
                     .asked = in_.ConsumeBool(),
                     .error = in_.ConsumeIntegralInRange(0, 20) == 0 ? "not found" : ""}};
      case 4:
        return gang::TaskFinished{task};
      case 5:
        return gang::TaskLost{.task = task, .why = "the connection broke"};
      case 6:
        alive_.erase(task);
        return gang::TaskGone{task};
      case 7:
        return gang::TaskBeat{.task = task, .silent_ms = {in_.ConsumeIntegralInRange(0, 40'000)}};
      case 8:
        if (in_.ConsumeIntegralInRange(0, 20) == 0)
          return gang::InfrastructureFailed{"the disk is full"};
        if (in_.ConsumeIntegralInRange(0, 10) == 0) {
          return gang::StopAsked{.why = "asked", .at_once = in_.ConsumeBool()};
        }
        return gang::Tick{};
      case 9:
        return gang::GangPlaced{gang::makeRoster(job_, wanted_), in_.ConsumeBool()};
      case 10:
        return gang::GangWaits{"waiting for 2 GPUs"};
      default:
        return gang::Tick{};
    }
  }

  void perform(const std::vector<gang::Action>& actions) {
    std::vector<std::string> refused;
    for (const gang::Action& action : actions) {
      require(!finished_, "nothing is done after the end");
      if (const auto* write = std::get_if<gang::Write>(&action)) {
        require(write->entry.generation >= generation_, "generations only grow");
        if (write->entry.kind == gang::EntryKind::kStarting) startGeneration(write->entry);
        if (write->entry.kind == gang::EntryKind::kEnded) {
          require(alive_.empty(), "a generation has ended when every task of it is gone");
        }
      } else if (const auto* place = std::get_if<gang::PlaceGang>(&action)) {
        require(place->generation == generation_ + 1, "the next generation is placed");
        require(alive_.empty(), "the gang is not placed while a task is alive");
        wanted_ = place->workers;
      } else if (std::holds_alternative<gang::StartGang>(action)) {
        require(alive_.empty(), "a gang is started once in a generation");
        for (const gang::Task& task : gang_.roster().tasks) {
          if (in_.ConsumeIntegralInRange(0, 30) == 0) {
            refused.push_back(task.name());
          } else {
            alive_.insert(task.name());
          }
        }
      } else if (std::holds_alternative<gang::Release>(action)) {
        require(generation_ > released_, "a generation is released once");
        released_ = generation_;
      } else if (std::holds_alternative<gang::Finish>(action)) {
        finished_ = true;
        require(alive_.empty(), "the run has ended when every task of it is gone");
      }
    }
    require(gang_.failures() <= job_.restarts.limit + 1, "no failure beyond the limit is forgiven");
    require(finished_ == (gang_.phase() == gang::Gang::Phase::kFinished), "the end is told");
    for (const std::string& task : refused) {
      perform(gang_.handle(gang::TaskRefused{.task = task, .why = "no room"}, now_));
    }
  }

  void startGeneration(const gang::Entry& entry) {
    require(entry.generation == generation_ + 1, "generations are numbered one by one");
    require(alive_.empty(), "no generation starts before all of the one before is gone");
    require(gang_.failures() <= job_.restarts.limit, "a used-up limit ends the run");
    require(entry.workers >= job_.workers.min && entry.workers <= job_.workers.max,
            "the workers stay within their bounds");
    generation_ = entry.generation;
  }

  // However it stood: asked to stop, with every task gone, a run comes to its end.
  void endAll() {
    perform(gang_.handle(gang::StopAsked{.why = "asked", .at_once = true}, now_));
    for (int turn = 0; turn < 3 && !finished_; ++turn) {
      for (const std::string& task : std::set<std::string>(alive_)) {
        alive_.erase(task);
        perform(gang_.handle(gang::TaskGone{task}, now_));
      }
    }
    require(finished_, "a run that is asked to stop ends when its tasks are gone");
  }

  FuzzedDataProvider& in_;
  const spec::Job job_;
  TimePoint now_;
  gang::Gang gang_;
  std::set<std::string> alive_;  // tasks that were started and are not gone
  int generation_ = 0;
  int wanted_ = 1;  // workers, at most
  int released_ = 0;
  bool finished_ = false;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzedDataProvider in(data, size);
  const spec::Job job = makeJob(in);
  World(in, job).run();
  return 0;
}
