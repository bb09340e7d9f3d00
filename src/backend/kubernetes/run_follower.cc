#include "backend/kubernetes/run_follower.h"

#include <algorithm>

#include <fmt/core.h>

namespace dure::kubernetes {
namespace {

using nlohmann::json;
using namespace std::chrono_literals;

constexpr auto kTick = 100ms;
// A manager that cannot start for so long never will.
constexpr auto kManagerPatience = 15s;
// A connection that breaks is another one a moment later.
constexpr auto kTroubleIsTold = 5s;
// From one question about a manager without a pod to the next: from the first to the longest.
constexpr auto kFirstQuestion = 1s;
constexpr auto kLastQuestion = 60s;
constexpr auto kRecordFollows = 10s;
// For the last words of pods that have ended.
constexpr auto kFollowDrain = 5s;

}  // namespace

RunFollower::RunFollower(kube::KubeClient& client, KubeRun run, runs::Follower& follower)
    : client_(client),
      run_(std::move(run)),
      follower_(follower),
      question_(kFirstQuestion),
      watch_(client, run_),
      logs_(client, run_, std::nullopt, [this](int generation, int rank, std::string_view lines) {
        const std::lock_guard lock(mutex_);
        follower_.output(generation, rank, lines);
      }) {}

Result<runs::RunView> RunFollower::follow(const Wait& wait) {
  while (true) {
    if (auto news = watch_.next(kTick)) {
      objects_ = *std::move(news);
      stale_ = true;
    }
    const auto over = look();
    if (!over) return over.error();
    if (*over) break;
    if (auto denied = denial()) return *std::move(denied);
    if (current_ && current_->entries.empty() && managerIsHopeless()) {
      return Error(Code::kUnavailable,
                   fmt::format("the manager of {} cannot start: {}", run_.text(), problem_.why));
    }
    if (wait.isOver()) return Error(Code::kUnavailable, "timed out while following " + run_.text());
    const std::lock_guard lock(mutex_);
    follower_.tick();
  }
  if (current_->state.outcome)
    readLastWords(client_, run_, watch_, logs_, Wait(kFollowDrain, wait.stop()));
  return *std::move(current_);
}

Result<bool> RunFollower::look() {
  if (!stale_ || SteadyClock::now() < look_at_) return false;
  auto found = followed(client_, run_, objects_);
  if (!found && found.error().code() == Code::kNotFound) {
    return Error(Code::kNotFound, run_.text() + " was removed");
  }
  // What could not be asked for is asked for again.
  stale_ = !found;
  if (!found) {
    look_at_ = SteadyClock::now() + kFirstQuestion;
    return false;
  }
  current_ = std::move(found->view);
  seen();
  return found->over;
}

void RunFollower::seen() {
  {
    const std::lock_guard lock(mutex_);
    follower_.seen(*current_);
  }
  const auto looked = logs_.see(objects_.pods, true);
  if (!looked && looked.error().code() == Code::kDenied && !std::exchange(mute_, true)) {
    tellTrouble(looked.error().message());
  }
}

bool RunFollower::managerIsHopeless() {
  const auto now = SteadyClock::now();
  if (auto problem = problemOfPods(run_, objects_.pods)) {
    problem_ = *std::move(problem);
  } else if (now >= ask_at_) {
    problem_ = managerProblem(client_, run_);
    ask_at_ = now + question_;
    question_ = std::min(question_ * 2, std::chrono::seconds(kLastQuestion));
  }
  if (!problem_.hopeless) hopeful_ = now;
  return now - hopeful_ >= kManagerPatience;
}

void RunFollower::tellTrouble(const std::string& sentence) {
  const std::lock_guard lock(mutex_);
  follower_.trouble(sentence);
}

// What keeps us from seeing the run is told once; it is the end only if it will not pass.
std::optional<Error> RunFollower::denial() {
  const auto trouble = watch_.trouble();
  const auto now = SteadyClock::now();
  if (!trouble) {
    trouble_since_.reset();
    trouble_told_ = false;
    return std::nullopt;
  }
  if (!current_ && trouble->code() == Code::kDenied) {
    return Error(Code::kDenied, fmt::format("{}; {} goes on", trouble->message(), run_.text()));
  }
  if (!trouble_since_) trouble_since_ = now;
  if (now - *trouble_since_ > kTroubleIsTold && !std::exchange(trouble_told_, true)) {
    tellTrouble(trouble->message() + "; trying again");
  }
  return std::nullopt;
}

Result<FollowedRun> followed(kube::KubeClient& client, const KubeRun& run,
                             const RunObjects& objects) {
  if (objects.record) {
    runs::RunView view = viewOf(run, objects);
    if (view.state.outcome) return FollowedRun{.view = std::move(view), .over = true};
    if (view.in_charge) return FollowedRun{.view = std::move(view), .over = false};
  }
  // A Job that was deleted takes its record along, a moment later.
  const Wait patience(kRecordFollows);
  while (true) {
    auto asked = readKubeRun(client, run);
    if (!asked) return std::move(asked).error();
    const bool lost = !asked->state.outcome && !asked->in_charge;
    if (!lost || patience.isOver()) {
      const bool over = lost || asked->state.outcome;
      return FollowedRun{.view = *std::move(asked), .over = over};
    }
    static_cast<void>(patience.pause(kTick * 5));
  }
}

void readLastWords(kube::KubeClient& client, const KubeRun& run, RunWatch& watch, PodLogs& logs,
                   const Wait& wait) {
  // The end may have been told before the last pods were.
  if (const auto pods = client.listAll({kube::kinds::kPods, run.name_space, "", ""},
                                       {.labels = selectorOf(run)})) {
    static_cast<void>(logs.see(*pods, true));
  }
  while (!logs.done() && !wait.isOver()) {
    if (const auto news = watch.next(kTick / 5)) static_cast<void>(logs.see(news->pods, true));
  }
}

}  // namespace dure::kubernetes
