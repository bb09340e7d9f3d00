#include <unistd.h>

#include <boost/asio/post.hpp>
#include <thread>

#include <fmt/core.h>

#include "agent/agent.h"
#include "base/process_tree.h"
#include "base/text.h"

// How the agent and its coordinator know of each other that they are still there.
namespace dure::agent {
namespace {

using std::chrono::milliseconds;

// For the loop to end the task when its lease has run out. (The end of a container's first process
// ends all the others.)
constexpr milliseconds kLoopPatience{5000};

}  // namespace

void Agent::beat() {
  protocol::Beat message;
  for (const Ranked& ranked : programs_) {
    message.silent_ms.push_back(ranked.program ? ranked.program->silent().count() : 0);
  }
  if (lease_) beats_.push_back(BootClock::now());
  send(protocol::MessageType::kBeat, message);
  beat_timer_.expires_after(milliseconds(welcome_.heartbeat_ms));
  beat_timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) beat();
  });
}

void Agent::leaseExpired() {
  asio::post(loop_, [this] {
    lostCoordinator(fmt::format("nothing was heard of the coordinator for {}",
                                describeDuration(milliseconds(welcome_.lease_ms))));
  });
  // The loop may be stuck; somebody else may have our place by now.
  const auto began = std::chrono::steady_clock::now();
  while (!loop_ended_) {
    killTrees(childProcesses());
    if (std::chrono::steady_clock::now() - began > kLoopPatience) _exit(3);
    std::this_thread::sleep_for(kKillAgain);
  }
}

}  // namespace dure::agent
