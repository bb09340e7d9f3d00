#include "cli/follow_view.h"

#include <signal.h>

#include <atomic>

#include <fmt/core.h>

#include "cli/command.h"

namespace dure::cli {
namespace {

using namespace std::chrono_literals;

// The view says what keeps pods from starting when it has done so for a while.
constexpr auto kWaitIsTold = 20s;

std::atomic<int> interrupts{0};

}  // namespace

void countInterruptions() {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    signal(number, [](int) { ++interrupts; });
  }
}

int interruptions() { return interrupts; }

FollowView::FollowView(Context& context, runs::Runs& runs, runs::RunId id)
    : runs_(runs),
      id_(std::move(id)),
      view_(context.out, context.err, clock_, TerminalView::detect()) {}

void FollowView::seen(const runs::RunView& run) {
  current_ = run;
  known_ = true;
  for (; told_ < current_.entries.size(); ++told_) view_.entry(current_.entries[told_]);
  if (current_.report.empty() || current_.report == report_) return;
  report_ = current_.report;
  static_cast<void>(view_.metric(current_.state.generation, 0, report_));
}

void FollowView::output(int generation, int rank, std::string_view lines) {
  static_cast<void>(view_.output(generation, rank, lines));
}

void FollowView::stopIfAsked() {
  const int now = interrupts;
  if (now <= asked_) return;
  const bool at_once = now > 1;
  const auto asked = runs_.askToStop(id_, at_once);
  // What could not be asked is asked again.
  if (!asked && asked.error().code() == Code::kUnavailable) return;
  asked_ = now;
  say(at_once ? "stopping at once" : "stopping; once more to stop at once");
}

void FollowView::tellWhyItWaits() {
  const auto now = SteadyClock::now();
  const std::string why =
      current_.status == runs::RunStatus::kStarting ? current_.state.reason : "";
  if (why != why_) why_since_ = now;
  why_ = why;
  if (why.empty() || why == why_told_ || now - why_since_ <= kWaitIsTold) return;
  why_told_ = why;
  say("waiting for " + why);
}

void FollowView::tick() {
  stopIfAsked();
  if (!known_) return;
  tellWhyItWaits();
  view_.tick(fmt::format("{} · {} task{} up", runs::statusName(current_.status),
                         current_.state.joined, current_.state.joined == 1 ? "" : "s"));
}

}  // namespace dure::cli
