#include "cli/terminal_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <sstream>

#include <fmt/core.h>

#include "base/text.h"

namespace dure::cli {
namespace {

using testing::HasSubstr;

constexpr const char* kClear = "\r\x1b[K";

class TerminalViews : public testing::Test {
 protected:
  TerminalView& view(TerminalView::Options options = {}) {
    return view_.emplace(out_, err_, clock_, options);
  }
  // What has been written to standard error since the last call.
  std::string said() {
    std::string text = err_.str();
    err_.str("");
    return text;
  }
  std::string shown(std::string_view lines) {
    out_.str("");
    EXPECT_TRUE(view_->output(1, 0, lines));
    return out_.str();
  }
  static std::string standing(const gang::Gang& gang) {
    const gang::Gang::Strength strength = gang.strength();
    return fmt::format("{} · {} of {} {} up", phaseName(gang.phase()), strength.up, strength.of,
                       strength.what);
  }

  static spec::Job jobOf(int workers) {
    spec::Job job;
    job.name = "train";
    job.workers = {.min = workers, .max = workers};
    job.program.command = {"true"};
    return job;
  }
  gang::Gang gangOf(int workers) { return gang::Gang(jobOf(workers), {}); }
  static gang::Entry make(gang::EntryKind kind, int generation) {
    gang::Entry entry{.kind = kind};
    entry.generation = generation;
    return entry;
  }
  static gang::Entry ended(int generation, const std::string& reason) {
    gang::Entry entry = make(gang::EntryKind::kEnded, generation);
    entry.reason = reason;
    return entry;
  }

  FakeClock clock_;
  std::ostringstream out_;
  std::ostringstream err_;
  std::optional<TerminalView> view_;
};

TEST_F(TerminalViews, EveryLineHasItsRankInFront) {
  EXPECT_TRUE(view().output(1, 3, "one\ntwo\n"));
  EXPECT_TRUE(view_->output(1, 12, "\n"));
  EXPECT_EQ(out_.str(), "[3] one\n[3] two\n[12] \n");
  EXPECT_EQ(said(), "");
}

TEST_F(TerminalViews, RanksHaveColoursOfTheirOwn) {
  view({.colour = true});
  EXPECT_TRUE(view_->output(1, 0, "a\n"));
  EXPECT_TRUE(view_->output(1, 1, "b\n"));
  EXPECT_EQ(out_.str(), "\x1b[36m[0]\x1b[0m a\n\x1b[33m[1]\x1b[0m b\n");
  EXPECT_TRUE(view_->output(1, 1000, "c\n")) << "there are more ranks than colours";
  EXPECT_THAT(out_.str(), HasSubstr("[1000]"));
}

TEST_F(TerminalViews, AProgressBarBecomesLines) {
  view();
  EXPECT_EQ(shown("10%\r20%\r30%\n"), "[0] 10%\n[0] 20%\n[0] 30%\n");
  EXPECT_EQ(shown("dos\r\nline\r\n"), "[0] dos\n[0] line\n");
  EXPECT_EQ(shown("a\r\n\r\nb\n"), "[0] a\n[0] \n[0] b\n");
  EXPECT_EQ(shown("end\r"), "[0] end\n");
  EXPECT_EQ(shown("no end"), "[0] no end\n");
  EXPECT_EQ(shown(""), "");
}

TEST_F(TerminalViews, WhenNobodyReadsOurOutputTheRunGoesOn) {
  view();
  out_.setstate(std::ios::badbit);
  EXPECT_TRUE(view_->output(1, 0, "a\n"));
}

TEST_F(TerminalViews, WithoutATerminalThereIsNoStatusLine) {
  view().tick(standing(gangOf(2)));
  EXPECT_EQ(said(), "");
}

TEST_F(TerminalViews, TheStatusLineTellsPhaseTasksAndTime) {
  view({.status_line = true});
  gang::Gang gang = gangOf(2);
  static_cast<void>(gang.begin(clock_.now()));
  static_cast<void>(gang.handle(gang::GangPlaced{gang::makeRoster(jobOf(2), 2)}, clock_.now()));
  view_->tick(standing(gang));
  EXPECT_EQ(said(), std::string(kClear) + "starting · 0 of 2 ranks up · 0 s");
  clock_.advance(Duration(400));
  view_->tick(standing(gang));
  EXPECT_EQ(said(), "") << "what has not changed is not drawn again";
  static_cast<void>(gang.handle(gang::TaskJoined{.task = "worker-0"}, clock_.now()));
  clock_.advance(Duration(41'000));
  view_->tick(standing(gang));
  EXPECT_EQ(said(), std::string(kClear) + "starting · 1 of 2 ranks up · 41 s");
}

TEST_F(TerminalViews, TheStatusLineTellsTheHighestStepAndTheRestarts) {
  view({.status_line = true});
  for (const char* line : {"{\"step\": 7}", "{\"step\": 5}", "{\"step\": \"x\"}", "noise", "[]"}) {
    EXPECT_TRUE(view_->metric(1, 0, line));
  }
  view_->tick(standing(gangOf(1)));
  EXPECT_THAT(said(), testing::EndsWith(" · step 7"));
  view_->entry(make(gang::EntryKind::kStarting, 2));
  view_->tick(standing(gangOf(1)));
  EXPECT_THAT(said(), testing::EndsWith(" · 1 restart"));
  view_->entry(make(gang::EntryKind::kStarting, 3));
  view_->tick(standing(gangOf(1)));
  EXPECT_THAT(said(), testing::EndsWith(" · 2 restarts"));
}

TEST_F(TerminalViews, TheStatusLineTellsHowFarATrainingIsAndHowWell) {
  const auto line = [&](int width) {
    view({.status_line = true, .width = width});
    EXPECT_TRUE(view_->metric(1, 0,
                              R"({"step": 50, "steps": 200, "epoch": 1, "epochs": 4,
                                  "samples_per_second": 5120.4, "loss": 0.51234,
                                  "accuracy": 0.8125, "seconds_left": 90.2})"));
    view_->tick(standing(gangOf(1)));
    return said();
  };
  EXPECT_THAT(line(120), testing::EndsWith("▕█████               ▏  25% · epoch 1 of 4 · "
                                           "5120 samples/s · loss 0.5123 · accuracy 0.8125 · "
                                           "1 m 30 s left"));
  // Nothing that people look for is cut off where there is less room.
  EXPECT_THAT(line(80), testing::EndsWith("▕█▊     ▏  25% · 5120 samples/s · loss 0.5123 · "
                                          "accuracy 0.8125 · 1 m 30 s left"));
  EXPECT_THAT(line(75), testing::EndsWith("  25% · 5120 samples/s · loss 0.5123 · "
                                          "accuracy 0.8125 · 1 m 30 s left"));
}

TEST_F(TerminalViews, TheStatusLineIsClearedForOutputAndDrawnAgain) {
  view({.status_line = true});
  view_->tick(standing(gangOf(1)));
  const std::string status = said();
  EXPECT_EQ(shown("a\n"), "[0] a\n");
  EXPECT_EQ(said(), kClear + status);
  view_->say("hello");
  EXPECT_EQ(said(), kClear + ("dure: hello\n" + status));
  view_.reset();
  EXPECT_EQ(said(), kClear) << "nothing is left of it at the end";
}

TEST_F(TerminalViews, OutputIsWrittenWhileNoStatusLineIsThere) {
  // One stream for both, as a terminal is.
  std::ostringstream terminal;
  TerminalView view(terminal, terminal, clock_, {.status_line = true});
  view.tick(standing(gangOf(1)));
  const std::string status = terminal.str();
  EXPECT_TRUE(view.output(1, 0, "a\n"));
  EXPECT_EQ(terminal.str(), status + kClear + "[0] a\n" + status);
}

TEST_F(TerminalViews, TheStatusLineFitsTheTerminal) {
  for (int width = 1; width < 80; ++width) {
    view({.status_line = true, .width = width});
    view_->tick(standing(gangOf(2)));
    const std::string line = said().substr(4);
    EXPECT_FALSE(findInvalidUtf8(line)) << width;
    std::size_t characters = 0;
    for (const char c : line) characters += (static_cast<unsigned char>(c) & 0xC0u) != 0x80 ? 1 : 0;
    EXPECT_LE(static_cast<int>(characters), std::max(20, width - 1)) << width;
    view_.reset();
    said();
  }
}

TEST_F(TerminalViews, ARestartIsOneSentenceWithTheReason) {
  view();
  view_->entry(make(gang::EntryKind::kStarting, 1));
  EXPECT_EQ(said(), "") << "the first start goes without saying";
  view_->entry(ended(1, "rank 1 (worker-1) exited with 3"));
  EXPECT_EQ(said(), "") << "until it is known what follows";
  view_->entry(make(gang::EntryKind::kStarting, 2));
  EXPECT_EQ(said(), "dure: rank 1 (worker-1) exited with 3; generation 2 follows\n");
}

TEST_F(TerminalViews, ARestartAfterAWaitSaysHowLong) {
  view();
  view_->entry(ended(1, "rank 0 was killed by SIGKILL"));
  gang::Entry waiting = make(gang::EntryKind::kWaiting, 1);
  waiting.delay = Duration(200);
  view_->entry(waiting);
  EXPECT_EQ(said(), "dure: rank 0 was killed by SIGKILL; generation 2 follows in 0.2 s\n");
  view_->entry(make(gang::EntryKind::kStarting, 2));
  EXPECT_EQ(said(), "") << "it is told once";
}

TEST_F(TerminalViews, SilentRanksAndASmallerGangAreTold) {
  view();
  gang::Entry silent = make(gang::EntryKind::kSilent, 1);
  silent.task = "worker-1";
  silent.rank = 1;
  silent.reason = "nothing for 30 s";
  view_->entry(silent);
  EXPECT_THAT(said(), HasSubstr("rank 1 (worker-1) is silent: nothing for 30 s"));
  gang::Entry resized = make(gang::EntryKind::kResized, 1);
  resized.workers = 3;
  resized.reason = "worker-3 did not come back";
  view_->entry(resized);
  EXPECT_THAT(said(), HasSubstr("goes on with 3 workers: worker-3 did not come back"));
  view_->entry(make(gang::EntryKind::kJoined, 1));
  view_->entry(make(gang::EntryKind::kRunning, 1));
  EXPECT_EQ(said(), "") << "what goes well goes without saying";
}

}  // namespace
}  // namespace dure::cli
