#pragma once

#include <iosfwd>
#include <map>
#include <memory>
#include <string>

#include "cli/terminal_view.h"
#include "pipeline/engine.h"
#include "runs/log_follower.h"
#include "runs/run_store.h"

namespace dure::cli {

// Shows a pipeline to the person who started it. On a terminal: one line for each step, redrawn in
// place, and above them what the steps print. Elsewhere: plain lines.
class PipelineScreen : public pipeline::Observer {
 public:
  PipelineScreen(std::ostream& out, std::ostream& err, const pipeline::Pipeline& pipeline,
                 const runs::RunStore& parts, const Clock& clock, TerminalView::Options options);
  ~PipelineScreen() override;

  void changed(const pipeline::Part& part, const pipeline::PartState& state) override;
  // Shows what was printed since, and how the steps stand. Call it a few times a second.
  void tick(const std::vector<pipeline::Part>& parts,
            const std::vector<pipeline::PartState>& states);
  void say(const std::string& sentence);

 private:
  void clear();
  void draw();
  void print(const std::string& part, std::string_view lines);
  void follow(const std::string& part, bool last);

  std::ostream& out_;
  std::ostream& err_;
  const pipeline::Pipeline& pipeline_;
  const runs::RunStore& parts_;
  const Clock& clock_;
  const TerminalView::Options options_;
  std::size_t label_width_ = 0;
  std::map<std::string, std::unique_ptr<runs::LogFollower>> logs_;  // by part, of what runs
  std::vector<std::string> lines_;
  std::size_t drawn_ = 0;
};

}  // namespace dure::cli
