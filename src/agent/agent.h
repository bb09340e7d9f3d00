#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <deque>
#include <iosfwd>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "agent/lease.h"
#include "agent/output_writer.h"
#include "agent/running_program.h"
#include "base/files.h"
#include "base/log.h"
#include "base/process_tree.h"
#include "net/connection.h"
#include "protocol/agent_options.h"
#include "protocol/protocol.h"

namespace dure::agent {

// The first process of every task. It joins, waits for the gang, runs the task's programs and
// leaves nothing behind: when it ends, every descendant has ended. If the coordinator goes away, it
// ends everything at once. One thread, which must be the process's first, has it all; two others
// see to it that neither a reader of the output nor that thread can keep the programs running too
// long.
class Agent {
 public:
  explicit Agent(protocol::AgentOptions options);
  ~Agent();
  // The exit code: 0 after an orderly end (in a container that of the programs), 3 if it could not
  // join or lost the coordinator.
  int run(std::ostream& errors);

 private:
  // Between two looks whether everything that was killed is gone.
  static constexpr std::chrono::milliseconds kKillAgain{20};

  // A `dure-agent rsh` at our socket, that wants a command in another task.
  struct Client {
    std::shared_ptr<net::Connection> connection;
    std::int64_t id = 0;
  };
  // A command that another task asked for.
  struct Remote {
    std::unique_ptr<RunningProgram> program;
  };

  Status connect();
  Status listenForClients();
  void waitForSignals();
  void receive(const net::Frame& frame);
  void lostCoordinator(const std::string& why);
  // Ends, and tells the coordinator why.
  void giveUp(const std::string& why);
  // Called by the lease's thread.
  void leaseExpired();

  void takeFolder(std::string_view piece);
  void lookUp(const protocol::Names& names);
  void startPrograms(const protocol::Start& start);
  void startProgram(std::size_t process);
  void allStarted();
  void startRemote(const protocol::Exec& exec);
  void acceptClient();
  void clientSent(const std::shared_ptr<Client>& client, const net::Frame& frame);

  // Looks again and again whether the programs still load, and says when they do not.
  void watchLoading(std::chrono::nanoseconds used_before);
  void reap();
  // Reports programs that have ended and whose output is through; settle() also ends the task when
  // that was the last of them.
  void report();
  void settle();
  void stop(std::chrono::milliseconds grace, int signal);
  void killAll();
  void killAgainIn(std::chrono::milliseconds wait);
  void finish();
  // Tells the coordinator that nothing is left, and ends the loop when that is out.
  void leave();
  void beat();
  void openOutput();
  void print(const std::string& label, std::string_view lines);
  std::vector<std::string> environmentFor(const std::map<std::string, std::string>& extra) const;
  template <typename Message>
  void send(protocol::MessageType type, const Message& message) {
    logDebug("agent", "{} sends {}", options_.task, protocol::messageName(protocol::raw(type)));
    coordinator_->send(protocol::raw(type), protocol::encode(message));
  }
  // Calls `visit` for every process this agent started and still knows.
  template <typename Visit>
  void eachProgram(Visit visit);

  const protocol::AgentOptions options_;
  std::optional<FileLock> lock_;
  asio::io_context loop_{1};
  std::shared_ptr<net::Connection> coordinator_;
  asio::signal_set signals_{loop_};
  asio::steady_timer beat_timer_{loop_};
  asio::steady_timer kill_timer_{loop_};
  asio::steady_timer load_timer_{loop_};
  asio::steady_timer start_timer_{loop_};
  asio::local::stream_protocol::acceptor clients_listener_{loop_};
  std::vector<std::string> inherited_;
  protocol::Welcome welcome_;
  std::deque<BootClock::time_point> beats_;  // that the coordinator has not answered
  std::string folder_;                       // as far as it has come
  protocol::Start start_;

  struct Ranked {
    std::unique_ptr<RunningProgram> program;  // empty: not started yet, or it could not be
    bool reported = false;
    bool ending = false;  // by itself, when the agent asks everybody to stop
    bool asked = false;   // the agent had asked it to stop when it ended
    std::int64_t ended_ms = 0;
  };
  std::vector<Ranked> programs_;
  std::map<std::int64_t, std::unique_ptr<Remote>> remotes_;
  std::map<std::int64_t, std::shared_ptr<Client>> clients_;
  bool started_ = false;
  std::chrono::steady_clock::time_point started_at_;
  bool stopping_ = false;
  bool killing_ = false;
  std::optional<Purge> purge_;  // since when it kills
  bool finished_ = false;
  bool left_ = false;
  int exit_code_ = 0;
  int program_code_ = 0;  // of the first program that failed
  std::string printed_;   // kept for its capacity
  std::string complaint_;
  std::jthread names_thread_;  // only looks up names, and tells the loop
  std::atomic<bool> loop_ended_{false};
  std::unique_ptr<OutputWriter> output_;  // in a container; it tells the loop when there is room
  std::unique_ptr<Lease> lease_;          // last: its thread uses the rest
};

template <typename Visit>
void Agent::eachProgram(Visit visit) {
  for (const Ranked& ranked : programs_) {
    if (ranked.program) visit(*ranked.program);
  }
  for (const auto& [id, remote] : remotes_) visit(*remote->program);
}

// mpirun's remote shell: runs a command line in another task of the gang, through the agent of the
// task it is called in, as `rsh HOST COMMAND…` would. The exit code is the command's.
int runRemoteShell(const std::vector<std::string>& arguments, std::ostream& errors);

}  // namespace dure::agent
