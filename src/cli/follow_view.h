#pragma once

#include "cli/command.h"
#include "cli/terminal_view.h"
#include "runs/runs.h"

namespace dure::cli {

// Counts SIGINT, SIGTERM and SIGHUP from the first call on.
void countInterruptions();
int interruptions();

// Shows a run that goes on elsewhere as it would be shown if it ran here. An interruption asks it
// to stop.
class FollowView : public runs::Follower {
 public:
  FollowView(Context& context, runs::Runs& runs, runs::RunId id);

  void seen(const runs::RunView& run) override;
  void output(int generation, int rank, std::string_view lines) override;
  void trouble(const std::string& sentence) override { say(sentence); }
  void tick() override;

  void say(const std::string& sentence) { view_.say(sentence); }

 private:
  using SteadyClock = std::chrono::steady_clock;
  void stopIfAsked();
  void tellWhyItWaits();

  runs::Runs& runs_;
  const runs::RunId id_;
  SystemClock clock_;
  TerminalView view_;
  bool known_ = false;
  runs::RunView current_;
  std::size_t told_ = 0;  // of its entries
  std::string report_;
  int asked_ = 0;               // to stop
  std::string why_, why_told_;  // pods do not start
  SteadyClock::time_point why_since_;
};

}  // namespace dure::cli
