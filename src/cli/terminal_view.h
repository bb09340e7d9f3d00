#pragma once

#include <iosfwd>
#include <map>
#include <string>

#include <nlohmann/json.hpp>

#include "coordinator/coordinator.h"

namespace dure::cli {

std::string phaseName(gang::Gang::Phase phase);

// Shows a run to the person who started it. On a terminal: one status line that is redrawn in
// place, and above it what the ranks print, each line with its rank in colour. Elsewhere: plain
// lines.
class TerminalView : public coordinator::Observer {
 public:
  struct Options {
    bool status_line = false;  // standard error is a terminal
    bool colour = false;       // standard output is a terminal, and colours are wanted
    int width = 80;
  };
  // What this process is connected to.
  static Options detect();

  TerminalView(std::ostream& out, std::ostream& err, const Clock& clock, Options options);
  ~TerminalView() override;

  void entry(const gang::Entry& entry) override;
  Status output(int generation, int rank, std::string_view lines) override;
  Status metric(int generation, int rank, std::string_view line) override;

  // Redraws the status line, which says how the gang stands. Call it a few times a second.
  void tick(const std::string& standing);
  // A sentence of our own, on standard error.
  void say(const std::string& sentence);

 private:
  void clearStatus();
  void drawStatus();
  std::string prefix(int rank) const;

  std::ostream& out_;
  std::ostream& err_;
  const Clock& clock_;
  const Options options_;
  const TimePoint began_;
  std::string status_;
  bool drawn_ = false;
  std::string text_;  // kept for its capacity
  std::string why_;   // the last generation ended
  std::int64_t step_ = -1;
  nlohmann::json progress_;  // what a program says that knows how many steps there are
  int restarts_ = 0;
};

}  // namespace dure::cli
