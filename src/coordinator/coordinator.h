#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "coordinator/store.h"
#include "gang/backend.h"
#include "gang/gang.h"
#include "gang/journal.h"
#include "net/connection.h"
#include "net/http_server.h"

namespace dure::coordinator {

// What the coordinator tells of a run while it goes on. Called on its thread.
class Observer {
 public:
  virtual ~Observer() = default;
  // After the entry is in the journal; once that cannot be written, without it.
  virtual void entry(const gang::Entry& entry) = 0;
  // Whole lines of one rank. An error ends the run: what a program prints must not be lost.
  virtual Status output(int generation, int rank, std::string_view lines) = 0;
  // One line that a rank reported, neither too long nor too deep (see protocol/report.h).
  virtual Status metric(int generation, int rank, std::string_view line) = 0;
};

// Runs one job: carries out what Gang decides, and tells Gang what it sees. It listens for agents,
// journals each decision before acting on it, and passes on what the ranks print. Everything
// happens on the thread that runs the loop; the references must outlive it.
class Coordinator {
 public:
  struct Options {
    std::string run;     // what agents must name
    std::string secret;  // and prove to know
    spec::Job job;
    gang::Site site;
    gang::RunState before;
    // What programs are to find in their directory, as packFolder() makes it; empty: nothing.
    std::string folder;
    std::string folder_hash;
  };

  Coordinator(asio::io_context& loop, const Clock& clock, gang::Backend& backend,
              gang::Journal& journal, std::vector<Observer*> observers, Options options);
  ~Coordinator();

  // Listens, and starts the first generation. `finished` is called once, from the loop.
  Status start(std::function<void(gang::Outcome, const std::string& reason)> finished);
  // Asks the gang to end: gently, or at once.
  void stop(const std::string& why, bool at_once);

  const gang::Gang& gang() const { return gang_; }
  int port() const { return acceptor_.local_endpoint().port(); }

 private:
  struct Agent;

  void accept();
  void acceptLater();
  bool hasRoom();
  void listenTo(asio::ip::tcp::socket socket);
  void greet(const std::shared_ptr<Agent>& agent, const net::Frame& frame);
  void receive(Agent& agent, const net::Frame& frame);
  Status keepOutput(int generation, int rank, std::string_view lines);
  Status keepMetrics(const Agent& agent, int rank, std::string_view lines);
  void relay(Agent& agent, const net::Frame& frame);
  void disconnected(Agent& agent, const std::string& why);
  void gone(const std::string& task);
  void refuse(Agent& agent, const std::string& why);
  void sendFolder(Agent& agent);
  void joined(Agent& agent);
  void see(const gang::Seen& seen);
  void work();
  void perform(const gang::Action& action);
  void performWrites(const std::vector<gang::Entry>& entries);
  void written(const std::vector<gang::Entry>& entries, const Status& status);
  void performStart();
  void performRelease();
  void askForNames();
  void named(const std::string& task);
  void releaseSome();
  void loaded(const std::string& task);
  void performStop(const gang::StopTask& action);
  void tick();

  asio::io_context& loop_;
  const Clock& clock_;
  gang::Backend& backend_;
  gang::Journal& journal_;
  const std::vector<Observer*> observers_;
  const Options options_;

  gang::Gang gang_;
  asio::ip::tcp::acceptor acceptor_;
  asio::steady_timer accept_again_;
  asio::steady_timer timer_;
  // Connections that have not proved to be agents, the oldest first. Shared with their handlers.
  std::deque<std::shared_ptr<Agent>> strangers_;
  std::map<std::string, std::shared_ptr<Agent>> agents_;  // of this generation, by task
  std::deque<std::pair<std::string, protocol::Start>>
      waiting_;                         // tasks that are still to be released
  std::set<std::string> unnamed_;       // tasks that do not know the names of the others yet
  std::map<std::string, int> loading_;  // released tasks, and their ranks
  std::map<std::int64_t, std::pair<std::string, std::string>> execs_;  // id: from task, to task
  std::set<int> dropped_;  // ranks of which a report was
  RendezvousStore store_;
  std::unique_ptr<net::HttpServer> store_server_;
  std::deque<gang::Action> pending_;
  bool performing_ = false;
  bool writing_ = false;  // what is pending waits for the journal
  bool broken_ = false;   // the journal cannot be written
  std::function<void(gang::Outcome, const std::string&)> finished_;
};

}  // namespace dure::coordinator
