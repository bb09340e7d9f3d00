#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "backend/local/ports.h"
#include "base/process_tree.h"
#include "gang/backend.h"
#include "net/asio.h"

namespace dure::local {

// Tasks as processes of this machine. The process that has it adopts orphans and waits for every
// child it has, so there can be one of these in a process, and no other children.
class LocalBackend : public gang::Backend {
 public:
  struct Options {
    spec::Job job;
    std::string run;        // its name
    std::string agent;      // the agent program
    std::string directory;  // of the run's tasks, absolute
  };

  LocalBackend(asio::io_context& loop, Options options);

  void listen(Handlers handlers) override;
  Result<gang::Site> survey() override;
  // Reserves ports for as long as this object lives, for survey() to use. Call it once, before it.
  Status begin();

  // The plan for this machine alone. Invalid if the job asks for more GPUs than there are.
  Result<gang::Layout> layout() const;
  // After survey(), whose plan it follows.
  void place(int generation, int workers) override;
  void start(const gang::Roster& roster, const gang::JoinOptions& join) override;
  void kill(const std::string& task) override;

 private:
  Status startAgent(const std::string& task, const gang::JoinOptions& join);
  void waitForChildren();
  void reap();

  asio::io_context& loop_;
  const Options options_;
  asio::signal_set children_;
  asio::steady_timer again_;
  asio::steady_timer force_;
  std::set<pid_t> doomed_;                       // guardians that were asked to end their task
  std::map<std::string, std::string> networks_;  // task to the network it runs in
  PortRange ports_;
  std::map<pid_t, std::string> agents_;  // or rather their guardians
  std::vector<std::string> ended_;  // agents that are dead, but perhaps not what they had started
  std::optional<Purge> purge_;      // of what they had started
  std::set<pid_t> left_;            // that could not be killed
  Handlers handlers_;
  std::optional<gang::Layout> planned_;  // by survey()
};

}  // namespace dure::local
