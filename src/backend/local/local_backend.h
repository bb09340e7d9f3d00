#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "backend/local/ports.h"
#include "launch/backend.h"
#include "net/asio.h"

namespace dure {

// Tasks as processes of this machine. The process that has it adopts orphans and waits for every
// child it has, so there can be one of these in a process, and no other children.
class LocalBackend : public Backend {
 public:
  struct Options {
    std::string agent;      // the agent program
    std::string directory;  // of the run's tasks, absolute
    std::string ports;      // where ports are reserved; shared by all runs of a person
  };

  LocalBackend(asio::io_context& loop, Options options);

  Result<Site> survey(const Job& job) override;
  // Reserves ports for as long as this object lives, for survey() to use. Call it once, before it.
  Status begin(const Job& job);

  Status start(const TaskSpec& task) override;
  void kill(const std::string& task) override;
  void onGone(std::function<void(const std::string& task)> tell) override;

 private:
  void waitForChildren();
  void reap();

  asio::io_context& loop_;
  const Options options_;
  asio::signal_set children_;
  asio::steady_timer again_;
  std::map<std::string, std::string> networks_;  // task to the network it runs in
  PortRange ports_;
  std::map<pid_t, std::string> agents_;
  std::vector<std::string> ended_;  // agents that are dead, but perhaps not what they had started
  std::function<void(const std::string&)> tell_;
};

}  // namespace dure
