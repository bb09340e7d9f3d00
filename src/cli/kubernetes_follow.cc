#include "cli/kubernetes_follow.h"

#include <signal.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include <fmt/core.h>

#include "cli/outcome.h"
#include "cli/terminal_view.h"

namespace dure::cli {
namespace {

using nlohmann::json;
using namespace std::chrono_literals;
using SteadyClock = std::chrono::steady_clock;

constexpr auto kTick = 100ms;
// A manager that cannot start for so long never will.
constexpr auto kManagerPatience = 15s;
// What keeps pods from starting is told when it has done so for a while.
constexpr auto kWaitIsTold = 20s;
// A connection that breaks is another one a moment later.
constexpr auto kTroubleIsTold = 5s;
// From one question about a manager without a pod to the next: from the first to the longest.
constexpr auto kFirstQuestion = 1s;
constexpr auto kLastQuestion = 60s;
constexpr auto kRecordFollows = 10s;
// For the last words of pods that have ended.
constexpr Duration kFollowDrain{5'000};

std::atomic<int> interrupts{0};

class Follower {
 public:
  Follower(Context& context, kube::KubeClient& client, kubernetes::KubeRun run)
      : client_(client),
        run_(std::move(run)),
        view_(context.out, context.err, clock_, TerminalView::detect()),
        watch_(client, run_),
        logs_(client, run_, std::nullopt, [this](int generation, int rank, std::string_view lines) {
          const std::lock_guard lock(mutex_);
          static_cast<void>(view_.output(generation, rank, lines));
        }) {}

  int follow() {
    const auto began = clock_.now();
    int asked = 0;
    while (true) {
      if (const int now = interrupts; now > asked && askToStop(now > 1)) asked = now;
      if (auto news = watch_.next(kTick)) {
        objects_ = *std::move(news);
        stale_ = true;
      }
      if (stale_ && SteadyClock::now() >= look_at_) {
        auto found = followed(client_, run_, objects_);
        if (!found && found.error().code() == Code::kNotFound) {
          say(fmt::format("{} was removed", run_.text()));
          return kInterrupted;
        }
        // What could not be asked for is asked for again.
        stale_ = !found;
        if (!found) look_at_ = SteadyClock::now() + kFirstQuestion;
        if (found && see(*found)) break;
      }
      if (isForbidden()) return kPlaceFailed;
      if (known_ && current_.entries.empty() && managerIsHopeless()) {
        static_cast<void>(removeKubeRun(client_, run_));
        return kPlaceFailed;
      }
      if (known_) tick();
    }
    if (!current_.state.outcome) {
      say(fmt::format("{} has lost its manager", run_.text()));
      return kPlaceFailed;
    }
    readLastWords(client_, run_, watch_, logs_, kFollowDrain);
    return conclude(std::chrono::duration_cast<Duration>(clock_.now() - began));
  }

 private:
  // Whether it is over.
  bool see(FollowedRun& found) {
    current_ = std::move(found.view);
    known_ = true;
    for (; told_ < current_.entries.size(); ++told_) {
      const std::lock_guard lock(mutex_);
      view_.entry(current_.entries[told_]);
    }
    if (!current_.report.empty() && current_.report != report_) {
      report_ = current_.report;
      const std::lock_guard lock(mutex_);
      static_cast<void>(view_.metric(current_.state.generation, 0, report_));
    }
    const auto looked = logs_.see(objects_.pods, true);
    if (!looked && looked.error().code() == Code::kDenied && !std::exchange(mute_, true)) {
      say(looked.error().message());
    }
    return found.over;
  }

  // Says why, if it is.
  bool managerIsHopeless() {
    const auto now = SteadyClock::now();
    if (auto problem = problemOfPods(run_, objects_.pods)) {
      problem_ = *std::move(problem);
    } else if (now >= ask_at_) {
      problem_ = managerProblem(client_, run_);
      ask_at_ = now + question_;
      question_ = std::min(question_ * 2, std::chrono::seconds(kLastQuestion));
    }
    if (!problem_.hopeless) hopeful_ = now;
    if (now - hopeful_ < kManagerPatience) return false;
    say(fmt::format("the manager of {} cannot start: {}", run_.text(), problem_.why));
    return true;
  }

  void say(const std::string& sentence) {
    const std::lock_guard lock(mutex_);
    view_.say(sentence);
  }

  // Says, once, what keeps us from seeing the run, which goes on; true if that will not pass.
  bool isForbidden() {
    const auto trouble = watch_.trouble();
    const auto now = SteadyClock::now();
    if (!trouble) {
      trouble_since_.reset();
      trouble_told_ = false;
      return false;
    }
    if (!known_ && trouble->code() == Code::kDenied) {
      say(fmt::format("{}; {} goes on", trouble->message(), run_.text()));
      return true;
    }
    if (!trouble_since_) trouble_since_ = now;
    if (now - *trouble_since_ > kTroubleIsTold && !std::exchange(trouble_told_, true)) {
      say(trouble->message() + "; trying again");
    }
    return false;
  }

  void tick() {
    const auto now = SteadyClock::now();
    const bool waits = !current_.state.running && !current_.state.outcome;
    const std::string why = waits && current_.status == "starting" ? current_.state.reason : "";
    if (why != why_) why_since_ = now;
    why_ = why;
    if (!why.empty() && why != why_told_ && now - why_since_ > kWaitIsTold) {
      why_told_ = why;
      say("waiting for " + why);
    }
    const std::lock_guard lock(mutex_);
    view_.tick(fmt::format("{} · {} task{} up", current_.status, current_.state.joined,
                           current_.state.joined == 1 ? "" : "s"));
  }

  // False if it has to be asked again.
  bool askToStop(bool at_once) {
    const json patch = {
        {"metadata",
         {{"annotations", {{kubernetes::annotations::kStop, at_once ? "now" : "gently"}}}}}};
    const auto asked =
        client_.patch({kube::kinds::kConfigMaps, run_.name_space, run_.object(), ""}, patch);
    if (!asked && asked.error().code() == Code::kUnavailable) return false;
    say(at_once ? "stopping at once" : "stopping; once more to stop at once");
    return true;
  }

  int conclude(Duration took) {
    const gang::Outcome outcome = *current_.state.outcome;
    const std::lock_guard lock(mutex_);
    view_.say(describeEnd(run_.text(), outcome, current_.state.reason,
                          current_.state.generation - 1, took));
    // What never could run leaves nothing behind.
    const bool ran = std::any_of(
        current_.entries.begin(), current_.entries.end(),
        [](const gang::Entry& entry) { return entry.kind == gang::EntryKind::kRunning; });
    if (outcome == gang::Outcome::kPlaceFailed && !ran)
      static_cast<void>(removeKubeRun(client_, run_));
    return exitCode(outcome);
  }

  kube::KubeClient& client_;
  const kubernetes::KubeRun run_;
  SystemClock clock_;
  std::mutex mutex_;  // of the view
  TerminalView view_;
  KubeRunObjects objects_;  // as they were last seen
  bool stale_ = false;      // what they amount to is not known yet
  SteadyClock::time_point look_at_;
  bool known_ = false;
  runs::RunView current_;
  std::size_t told_ = 0;
  std::string report_;
  std::optional<SteadyClock::time_point> trouble_since_;
  bool trouble_told_ = false;
  std::string why_, why_told_;  // pods do not start
  SteadyClock::time_point why_since_;
  bool mute_ = false;  // what the ranks print cannot be read, and that was said
  ManagerProblem problem_;
  std::chrono::seconds question_{kFirstQuestion};
  SteadyClock::time_point ask_at_;
  SteadyClock::time_point hopeful_ = SteadyClock::now();
  RunWatch watch_;
  PodLogs logs_;  // its threads use the view
};

}  // namespace

void countInterruptions() {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    signal(number, [](int) { ++interrupts; });
  }
}

int interruptions() { return interrupts; }

Result<FollowedRun> followed(kube::KubeClient& client, const kubernetes::KubeRun& run,
                             const KubeRunObjects& objects) {
  if (objects.record) {
    runs::RunView view = viewOf(run, objects);
    if (view.state.outcome) return FollowedRun{.view = std::move(view), .over = true};
    if (view.in_charge) return FollowedRun{.view = std::move(view), .over = false};
  }
  // A Job that was deleted takes its record along, a moment later.
  const auto deadline = SteadyClock::now() + kRecordFollows;
  while (true) {
    auto asked = readKubeRun(client, run);
    if (!asked) return std::move(asked).error();
    const bool lost = !asked->state.outcome && !asked->in_charge;
    if (!lost || SteadyClock::now() > deadline) {
      const bool over = lost || asked->state.outcome;
      return FollowedRun{.view = *std::move(asked), .over = over};
    }
    std::this_thread::sleep_for(kTick * 5);
  }
}

void readLastWords(kube::KubeClient& client, const kubernetes::KubeRun& run, RunWatch& watch,
                   PodLogs& logs, Duration patience) {
  // The end may have been told before the last pods were.
  if (const auto pods = client.listAll({kube::kinds::kPods, run.name_space, "", ""},
                                       {.labels = kubernetes::selectorOf(run)})) {
    static_cast<void>(logs.see(*pods, true));
  }
  const auto deadline = SteadyClock::now() + patience;
  while (!logs.done() && SteadyClock::now() < deadline) {
    if (const auto news = watch.next(kTick / 5)) static_cast<void>(logs.see(news->pods, true));
  }
}

int followKubeRun(Context& context, kube::KubeClient& client, const kubernetes::KubeRun& run) {
  return Follower(context, client, run).follow();
}

}  // namespace dure::cli
