// How an agent ends what it has started.
#include "agent/agent.h"

namespace dure::agent {
namespace {

using std::chrono::milliseconds;

// Nothing that can be killed lives on for so long.
constexpr milliseconds kPurgePatience{5000};

}  // namespace

// Kills every descendant, again and again until none is left: those of a killed process become ours
// only when it is dead, and may themselves have forked in the meantime. What cannot be killed is
// left to whoever started us, who tells of it.
void Agent::killAll() {
  killing_ = true;
  names_thread_.request_stop();
  if (!purge_) purge_.emplace(kPurgePatience);
  const std::vector<pid_t> children = childProcesses();
  if (!children.empty() && purge_->exhausted()) return finish();
  const milliseconds wait = purge_->strike(children);
  killAgainIn(children.empty() ? milliseconds(0) : wait);
}

void Agent::killAgainIn(milliseconds wait) {
  kill_timer_.expires_after(wait);
  kill_timer_.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    reap();
    if (!finished_) killAll();
  });
}

}  // namespace dure::agent
