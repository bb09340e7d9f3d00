#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>

#include "agent/agent.h"

// What the programs print, where the agent is the first process of a container.
namespace dure::agent {

void Agent::openOutput() {
  output_ = std::make_unique<OutputWriter>(STDOUT_FILENO, [this] {
    asio::post(loop_, [this] {
      if (finished_ && output_->idle()) return leave();
      eachProgram([](RunningProgram& program) { program.resume(); });
      settle();
    });
  });
}

void Agent::print(const std::string& label, std::string_view lines) {
  printed_.clear();
  while (!lines.empty()) {
    const std::size_t end = std::min(lines.find('\n') + 1, lines.size());
    const std::string_view line = lines.substr(0, end == 0 ? lines.size() : end);
    printed_ += label;
    printed_ += line;
    lines.remove_prefix(line.size());
  }
  if (!printed_.empty() && printed_.back() != '\n') printed_ += '\n';
  output_->write(printed_);
}

}  // namespace dure::agent
