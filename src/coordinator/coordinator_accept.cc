// Admits agents, and keeps strangers from being a burden.
#include <chrono>

#include "base/log.h"
#include "coordinator/coordinator_agent.h"

namespace dure::coordinator {
namespace {

using tcp = asio::ip::tcp;
using std::chrono::steady_clock;

// Until an agent has proved who it is.
constexpr std::size_t kGreetingLimit = 8u << 10u;
// Strangers that say nothing are not kept for longer.
constexpr auto kGreetingPatience = std::chrono::seconds(10);
// Nor are there ever more of them, beside one for each task that may be on its way.
constexpr std::size_t kMostStrangers = 128;
// An agent says who it is as soon as it is connected; whoever has had so long may be an agent on a
// busy machine, or it may not.
constexpr auto kTimeToGreet = std::chrono::milliseconds(250);
constexpr auto kAcceptAgain = std::chrono::milliseconds(50);

}  // namespace

void Coordinator::accept() {
  acceptor_.async_accept([this](const boost::system::error_code& error, tcp::socket socket) {
    if (error == asio::error::operation_aborted || !acceptor_.is_open()) return;
    if (!error) listenTo(std::move(socket));
    // An error is that no descriptors are left, most likely: at once it would be no better.
    if (!error && hasRoom()) return accept();
    acceptLater();
  });
}

void Coordinator::acceptLater() {
  accept_again_.expires_after(kAcceptAgain);
  accept_again_.async_wait([this](const boost::system::error_code& cancelled) {
    if (cancelled) return;
    hasRoom() ? accept() : acceptLater();
  });
}

// Anybody can connect. When there are too many who have not proved who they are, the oldest must
// go; but not before it had its time, or a flood would wash away the agents too.
bool Coordinator::hasRoom() {
  const std::size_t most = kMostStrangers + gang_.roster().tasks.size();
  while (strangers_.size() >= most) {
    const auto oldest = strangers_.front();
    if (steady_clock::now() - oldest->since < kTimeToGreet) return false;
    strangers_.pop_front();
    oldest->patience->cancel();
    oldest->connection->close();
  }
  return true;
}

void Coordinator::listenTo(tcp::socket socket) {
  auto agent = std::make_shared<Agent>();
  agent->connection = std::make_shared<net::Connection>(net::Connection::Socket(std::move(socket)));
  if (options_.site.lease.count() > 0)
    agent->connection->encrypt(options_.secret, net::TlsSide::kServer);
  agent->connection->setLimit(kGreetingLimit);
  agent->since = steady_clock::now();
  agent->patience = std::make_unique<asio::steady_timer>(loop_, kGreetingPatience);
  agent->patience->async_wait([this, agent](const boost::system::error_code& cancelled) {
    if (cancelled) return;
    std::erase(strangers_, agent);
    agent->connection->close();
  });
  strangers_.push_back(agent);
  agent->connection->start({
      .frame =
          [this, agent](const net::Frame& frame) {
            agent->task.empty() ? greet(agent, frame) : receive(*agent, frame);
          },
      .closed = [this, agent](const std::string& why) { disconnected(*agent, why); },
      .drained = [this, agent] { sendFolder(*agent); },
  });
}

void Coordinator::refuse(Agent& agent, const std::string& why) {
  logInfo("coordinator", "refuses an agent: {}", why);
  // The patience goes on: it closes the connection if the other side does not.
  agent.send(protocol::MessageType::kRefused, protocol::Refused{why});
  agent.connection->finish();
}

}  // namespace dure::coordinator
