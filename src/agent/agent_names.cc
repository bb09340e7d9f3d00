// The names of the gang, which DNS may learn of after the gang has come together.
#include <boost/asio/post.hpp>

#include <fmt/core.h>

#include "agent/agent.h"
#include "agent/name_lookup.h"
#include "base/text.h"

namespace dure::agent {

void Agent::lookUp(const protocol::Names& names) {
  if (names_thread_.joinable() || stopping_ || killing_) return;
  names_thread_ = std::jthread([this, names](const std::stop_token& stop) {
    const Duration patience(names.patience_ms);
    auto unknown = awaitNames(names.names, patience, stop);
    asio::post(loop_, [this, patience, unknown = std::move(unknown)] {
      if (killing_ || finished_) return;
      // A program that needs none of them can do its work; one that does says so itself, but not
      // why.
      if (!unknown.empty() && options_.contained) {
        print("", fmt::format("{}{}: DNS does not know {} after {}; starting all the same\n",
                              protocol::kAgentWords, options_.task, join(unknown, ", "),
                              describeDuration(patience)));
      }
      coordinator_->send(protocol::raw(protocol::MessageType::kNamed), "");
    });
  });
}

}  // namespace dure::agent
