#include "cli/pipeline_screen.h"

#include <algorithm>
#include <ostream>

#include <fmt/core.h>

#include "base/text.h"
#include "pipeline/record_view.h"

namespace dure::cli {
namespace {

std::string markOf(const std::string& word) {
  if (word.starts_with("succeeded") || word.starts_with("ready")) return "✔";
  if (word.starts_with("cached")) return "=";
  if (word.starts_with("failed") || word.starts_with("stopped")) return "✘";
  return word.starts_with("running") ? "▸" : "·";
}

}  // namespace

PipelineScreen::PipelineScreen(std::ostream& out, std::ostream& err,
                               const pipeline::Pipeline& pipeline, const runs::RunStore& parts,
                               const Clock& clock, TerminalView::Options options)
    : out_(out), err_(err), pipeline_(pipeline), parts_(parts), clock_(clock), options_(options) {
  for (const pipeline::Part& part : partsOf(pipeline)) {
    label_width_ = std::max(label_width_, part.name.size());
  }
}

PipelineScreen::~PipelineScreen() { clear(); }

void PipelineScreen::clear() {
  if (drawn_ == 0) return;
  err_ << fmt::format("\x1b[{}A\x1b[J", drawn_) << std::flush;
  drawn_ = 0;
}

void PipelineScreen::draw() {
  if (!options_.status_line) return;
  for (const std::string& line : lines_) err_ << line << "\n";
  err_ << std::flush;
  drawn_ = lines_.size();
}

void PipelineScreen::say(const std::string& sentence) {
  clear();
  err_ << "dure: " << sentence << std::endl;
  draw();
}

void PipelineScreen::print(const std::string& part, std::string_view lines) {
  if (!out_) return;
  clear();
  while (!lines.empty()) {
    const std::size_t end = std::min(lines.find('\n'), lines.size());
    out_ << fmt::format("{:<{}} │ ", part, label_width_) << lines.substr(0, end) << "\n";
    lines.remove_prefix(std::min(end + 1, lines.size()));
  }
  out_.flush();
  draw();
}

void PipelineScreen::follow(const std::string& part, bool last) {
  const auto log = logs_.find(part);
  if (log == logs_.end()) return;
  log->second->poll(
      last, [&](int /*generation*/, int /*rank*/, std::string_view lines) { print(part, lines); });
  if (last) logs_.erase(log);
}

void PipelineScreen::changed(const pipeline::Part& part, const pipeline::PartState& state) {
  using pipeline::PartStatus;
  if (state.status == PartStatus::kRunning) {
    // Its record may not be there yet; its place is known.
    const std::size_t dot = state.run.rfind('.');
    const runs::RunId id{state.run.substr(0, dot), std::atoi(state.run.c_str() + dot + 1)};
    logs_[part.name] =
        std::make_unique<runs::LogFollower>(parts_.paths(id), runs::LogFollower::Options{});
  } else {
    follow(part.name, state.status != PartStatus::kReady);
  }
  if (options_.status_line && state.status != PartStatus::kFailed &&
      !(state.status == PartStatus::kWaiting && !state.reason.empty())) {
    return;
  }
  std::string sentence = fmt::format("{} {}", part.name, statusName(state.status));
  if (state.status == PartStatus::kWaiting) sentence = fmt::format("{} failed", part.name);
  const auto took = std::chrono::duration_cast<Duration>(state.ended - state.began);
  if (state.status == PartStatus::kSucceeded || state.status == PartStatus::kReady) {
    sentence += " after " + describeDuration(took);
  }
  if (!state.reason.empty()) sentence += ": " + state.reason;
  if (state.status == PartStatus::kWaiting) {
    sentence += fmt::format("; attempt {} follows", state.attempts + 1);
  }
  say(sentence);
}

void PipelineScreen::tick(const std::vector<pipeline::Part>& parts,
                          const std::vector<pipeline::PartState>& states) {
  std::vector<std::string> names;
  for (const auto& [name, log] : logs_) names.push_back(name);
  for (const std::string& name : names) follow(name, false);
  if (!options_.status_line) return;
  pipeline::RecordView view{.pipeline = {}, .parts = parts, .states = states};
  for (const pipeline::PartState& state : states) view.words.push_back(statusName(state.status));
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < pipeline_.steps.size(); ++i) {
    const std::string word = stepWord(view, i);
    const Duration took = stepTime(view, i, clock_.now());
    const std::string time = took.count() == 0 ? "" : describeDuration(took);
    std::string line = fmt::format("{} {:<{}}  {}  {}", markOf(word), pipeline_.steps[i].name,
                                   label_width_, word, time);
    lines.push_back(line.substr(0, static_cast<std::size_t>(std::max(20, options_.width + 1))));
  }
  if (lines == lines_ && drawn_ > 0) return;
  clear();
  lines_ = std::move(lines);
  draw();
}

}  // namespace dure::cli
