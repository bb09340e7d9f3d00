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

// How a job is laid out on one machine: GPUs that the job leaves to the plan are one worker's.
inline gang::Layout localLayout(int gpus, int workers) {
  return gpus > 0 ? gang::Layout{.workers = 1, .gpus = {gpus}} : gang::Layout{.workers = workers};
}

// Tasks as processes of this machine. The process that has it adopts orphans and waits for every
// child it has, so there can be one of these in a process, and no other children.
class LocalBackend : public gang::Backend {
 public:
  struct Options {
    std::string run;        // its name
    std::string agent;      // the agent program
    std::string directory;  // of the run's tasks, absolute
  };

  LocalBackend(asio::io_context& loop, Options options);

  void listen(Handlers handlers) override;
  Result<gang::Site> survey(const spec::Job& job) override;
  // Reserves ports for as long as this object lives, for survey() to use. Call it once, before it.
  Status begin(const spec::Job& job);

  // This machine takes them all: `gpus` of a job are one worker's.
  void place(int generation, int workers) override;
  Status start(const gang::TaskSpec& task) override;
  void kill(const std::string& task) override;

 private:
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
  int gpus_ = 0;  // of the whole job, where it leaves the split open
};

}  // namespace dure::local
