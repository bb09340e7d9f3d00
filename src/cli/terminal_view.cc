#include "cli/terminal_view.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <ostream>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "base/text.h"
#include "cli/chart.h"
#include "protocol/rank_label.h"
#include "protocol/report.h"

namespace dure::cli {
namespace {

// Distinct on dark and on light grounds.
constexpr std::array<int, 6> kColours{36, 33, 32, 35, 34, 31};

}  // namespace

std::string phaseName(gang::Gang::Phase phase) {
  switch (phase) {
    case gang::Gang::Phase::kPlacing:
      return "pending";
    case gang::Gang::Phase::kNew:
    case gang::Gang::Phase::kStarting:
      return "starting";
    case gang::Gang::Phase::kRunning:
      return "running";
    case gang::Gang::Phase::kStopping:
      return "stopping";
    case gang::Gang::Phase::kWaiting:
      return "waiting";
    case gang::Gang::Phase::kFinished:
      return "finished";
  }
  return "";
}

TerminalView::Options TerminalView::detect() {
  Options options;
  const char* term = std::getenv("TERM");
  const bool dumb = term == nullptr || std::string_view(term) == "dumb";
  // Lines of the log would break it.
  options.status_line = isatty(STDERR_FILENO) != 0 && !dumb && !isLogged(LogLevel::kInfo);
  options.colour = isatty(STDOUT_FILENO) != 0 && !dumb && std::getenv("NO_COLOR") == nullptr;
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) options.width = size.ws_col;
  return options;
}

TerminalView::TerminalView(std::ostream& out, std::ostream& err, const Clock& clock,
                           Options options)
    : out_(out), err_(err), clock_(clock), options_(options), began_(clock.now()) {}

TerminalView::~TerminalView() { clearStatus(); }

std::string TerminalView::prefix(int rank) const {
  if (!options_.colour) return protocol::rankLabel(rank);
  return fmt::format("\x1b[{}m[{}]\x1b[0m ",
                     kColours[static_cast<std::size_t>(rank) % kColours.size()], rank);
}

namespace {

constexpr int kBarWidth = 20;
constexpr int kLeastBarWidth = 5;
constexpr int kBarEnds = 2;

// Longer is no estimate.
constexpr double kMostSecondsLeft = 1e9;

double positiveIn(const nlohmann::json& report, const char* name) {
  return protocol::numberIn(report, name).value_or(-1);
}

// Every character here is one column wide.
int columnsOf(const std::string& text) {
  return static_cast<int>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

// How fast a program is, and how well it does.
std::string describePace(const nlohmann::json& report) {
  std::string text;
  if (const double rate = positiveIn(report, "samples_per_second"); rate >= 0) {
    text += fmt::format(" · {:.0f} samples/s", rate);
  }
  if (const double loss = positiveIn(report, "loss"); loss >= 0)
    text += fmt::format(" · loss {:.4f}", loss);
  if (const double accuracy = positiveIn(report, "accuracy"); accuracy >= 0) {
    text += fmt::format(" · accuracy {:.4f}", accuracy);
  }
  if (const double left = positiveIn(report, "seconds_left");
      left >= 0 && left < kMostSecondsLeft) {
    text += fmt::format(" · {} left", describeDuration(std::chrono::seconds(std::llround(left))));
  }
  return text;
}

// What a program says that knows how many steps there are. On a narrow terminal the bar becomes
// shorter; before there is none, the epoch is left out, of which the percentage tells as much.
std::string describeProgress(const nlohmann::json& report, int width) {
  const double part = positiveIn(report, "step") / positiveIn(report, "steps");
  const std::string percent = fmt::format(" {:3.0f}%", 100 * part);
  const std::string pace = describePace(report);
  std::string epoch;
  if (const double epochs = positiveIn(report, "epochs"); epochs > 0) {
    epoch = fmt::format(" · epoch {:.0f} of {:.0f}", positiveIn(report, "epoch"), epochs);
  }
  int room = width - kBarEnds - columnsOf(percent + pace);
  if (room - columnsOf(epoch) >= kLeastBarWidth) {
    room -= columnsOf(epoch);
  } else {
    epoch.clear();
  }
  const std::string bar = room < kLeastBarWidth ? "" : drawBar(part, std::min(room, kBarWidth));
  return bar + percent + epoch + pace;
}

std::string cutToWidth(const std::string& text, std::size_t width) {
  std::size_t columns = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool begins = (static_cast<unsigned char>(text[i]) & 0xC0) != 0x80;
    if (begins && columns++ == width) return text.substr(0, i);
  }
  return text;
}

}  // namespace

void TerminalView::clearStatus() {
  if (!drawn_) return;
  err_ << "\r\x1b[K" << std::flush;
  drawn_ = false;
}

void TerminalView::drawStatus() {
  if (!options_.status_line || status_.empty()) return;
  err_ << "\r\x1b[K" << status_ << std::flush;
  drawn_ = true;
}

void TerminalView::say(const std::string& sentence) {
  clearStatus();
  err_ << "dure: " << sentence << std::endl;
  drawStatus();
}

void TerminalView::entry(const gang::Entry& entry) {
  switch (entry.kind) {
    case gang::EntryKind::kEnded:
      // Told together with what follows from it: another generation, or the end.
      why_ = entry.reason;
      return;
    case gang::EntryKind::kWaiting:
      say(fmt::format("{}; generation {} follows in {}", why_, entry.generation + 1,
                      describeDuration(entry.delay)));
      why_.clear();
      return;
    case gang::EntryKind::kStarting:
      restarts_ = std::max(0, entry.generation - 1);
      if (!why_.empty()) say(fmt::format("{}; generation {} follows", why_, entry.generation));
      why_.clear();
      return;
    case gang::EntryKind::kPending:
    case gang::EntryKind::kResized:
    case gang::EntryKind::kSilent:
    case gang::EntryKind::kWarned:
      return say(gang::describeEntry(entry));
    default:
      return;
  }
}

Status TerminalView::output(int, int rank, std::string_view lines) {
  // Whoever read our output may have gone: the record still gets everything.
  if (!out_) return {};
  const std::string before = prefix(rank);
  text_.clear();
  while (!lines.empty()) {
    std::size_t end = lines.find_first_of("\n\r");
    if (end == std::string_view::npos) end = lines.size();
    text_ += before;
    text_ += lines.substr(0, end);
    text_ += '\n';
    // "\r\n" is one end of a line.
    if (end + 1 < lines.size() && lines[end] == '\r' && lines[end + 1] == '\n') ++end;
    lines.remove_prefix(std::min(end + 1, lines.size()));
  }
  const bool had_status = drawn_;
  clearStatus();
  out_.write(text_.data(), static_cast<std::streamsize>(text_.size())).flush();
  if (had_status) drawStatus();
  return {};
}

Status TerminalView::metric(int, int, std::string_view line) {
  auto report = protocol::parseReport(line);
  const auto step = report ? protocol::wholeIn(*report, "step") : std::nullopt;
  if (!step) return {};
  step_ = std::max(step_, *step);
  if (positiveIn(*report, "steps") >= 1) progress_ = *std::move(report);
  return {};
}

void TerminalView::tick(const std::string& standing) {
  if (!options_.status_line) return;
  const auto elapsed = std::chrono::duration_cast<std::chrono::seconds>(clock_.now() - began_);
  const int width = std::max(20, options_.width - 1);
  std::string line = fmt::format("{} · {}", standing, describeDuration(elapsed));
  std::string restarts;
  if (restarts_ > 0)
    restarts = fmt::format(" · {} restart{}", restarts_, restarts_ == 1 ? "" : "s");
  if (!progress_.is_null()) {
    line = describeProgress(progress_, width - columnsOf(restarts));
  } else if (step_ >= 0) {
    line += fmt::format(" · step {}", step_);
  }
  line = cutToWidth(line + restarts, static_cast<std::size_t>(width));
  if (line == status_ && drawn_) return;
  status_ = line;
  drawStatus();
}

}  // namespace dure::cli
