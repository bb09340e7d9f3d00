// Commands that one task runs in another: the agent's side of `dure-agent rsh`, as the one that is
// asked and as the one that runs the command.
#include <unistd.h>

#include <string>

#include "agent/agent.h"
#include "agent/agent_socket.h"
#include "base/log.h"

namespace dure::agent {
namespace {

// A number that no other agent draws.
std::int64_t randomNumber() {
  return static_cast<std::int64_t>(std::stoull(randomToken().substr(0, 15), nullptr, 16));
}

}  // namespace

Status Agent::listenForClients() {
  const auto name = agentSocketName(options_.directory);
  if (!name) return name.error();
  unlink((options_.directory + "/" + kAgentSocket).c_str());
  try {
    const asio::local::stream_protocol::endpoint endpoint(name->path);
    clients_listener_.open(endpoint.protocol());
    clients_listener_.bind(endpoint);
    clients_listener_.listen();
  } catch (const boost::system::system_error& error) {
    return Error(Code::kIo, "listen in " + options_.directory + ": " + error.code().message());
  }
  acceptClient();
  return {};
}

void Agent::acceptClient() {
  clients_listener_.async_accept(
      [this](const boost::system::error_code& error, asio::local::stream_protocol::socket socket) {
        if (error) return;
        auto client = std::make_shared<Client>();
        client->connection =
            std::make_shared<net::Connection>(net::Connection::Socket(std::move(socket)));
        client->connection->start(
            {.frame = [this, client](const net::Frame& frame) { clientSent(client, frame); },
             .closed =
                 [this, client](const std::string&) {
                   if (clients_.erase(client->id) == 0) return;
                   send(protocol::MessageType::kExecCancel, protocol::ExecCancel{client->id});
                 },
             .drained = nullptr});
        acceptClient();
      });
}

void Agent::clientSent(const std::shared_ptr<Client>& client, const net::Frame& frame) {
  auto exec = protocol::decode<protocol::Exec>(frame.payload);
  if (frame.type != protocol::raw(protocol::MessageType::kExec) || !exec || client->id != 0) {
    return client->connection->close();
  }
  client->id = randomNumber();
  exec->id = client->id;
  clients_[client->id] = client;
  send(protocol::MessageType::kExec, *exec);
}

void Agent::startRemote(const protocol::Exec& exec) {
  const auto refuse = [&](const std::string& why) {
    send(protocol::MessageType::kExecExited,
         protocol::ExecExited{.id = exec.id, .status = {.code = 127}, .error = why});
  };
  if (!started_ || stopping_) return refuse(options_.task + " is not running");
  auto program = RunningProgram::start(
      loop_, {.argv = exec.argv, .env = environmentFor(start_.env), .workdir = start_.workdir},
      {.output =
           [this, id = exec.id](bool error_stream, std::string_view lines) {
             coordinator_->send(protocol::raw(protocol::MessageType::kExecOutput),
                                protocol::encodeChunk(id * 2 + (error_stream ? 1 : 0), lines));
           },
       .metrics = nullptr,
       .more = [this] { return coordinator_->queued() < net::Connection::kHighWater; },
       .read = [this] { settle(); }});
  if (!program) return refuse(program.error().message());
  logInfo("agent", "{} starts a command for another task: pid {}", options_.task,
          (*program)->pid());
  remotes_[exec.id] = std::make_unique<Remote>(Remote{*std::move(program)});
}

}  // namespace dure::agent
