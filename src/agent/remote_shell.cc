#include <boost/asio/local/stream_protocol.hpp>
#include <cstdlib>
#include <ostream>

#include "agent/agent.h"
#include "agent/agent_socket.h"
#include "base/files.h"
#include "base/rank_names.h"
#include "base/text.h"
#include "net/connection.h"
#include "protocol/protocol.h"

namespace dure::agent {

int runRemoteShell(const std::vector<std::string>& arguments, std::ostream& errors) {
  const auto fail = [&](const std::string& why) {
    errors << "dure-agent rsh: " << why << "\n";
    return 255;
  };
  if (arguments.size() < 2) return fail("usage: dure-agent rsh TASK COMMAND…");
  const char* directory = std::getenv(variables::kTaskDirectory);
  if (directory == nullptr) {
    return fail(std::string(variables::kTaskDirectory) +
                " is not set: this works inside a task only");
  }
  const auto name = agentSocketName(directory);
  if (!name) return fail(name.error().message());

  asio::io_context loop(1);
  asio::local::stream_protocol::socket socket(loop);
  boost::system::error_code error;
  socket.connect(asio::local::stream_protocol::endpoint(name->path), error);
  if (error) return fail("connect to the agent: " + error.message());

  int code = 255;
  auto connection = std::make_shared<net::Connection>(net::Connection::Socket(std::move(socket)));
  connection->start(
      {.frame =
           [&](const net::Frame& frame) {
             if (frame.type == protocol::raw(protocol::MessageType::kExecOutput)) {
               const auto chunk = protocol::decodeChunk(frame.payload);
               // Whoever reads our output may have gone; the command goes on all the same.
               if (chunk) static_cast<void>(writeAll(chunk->number % 2 == 0 ? 1 : 2, chunk->bytes));
               return;
             }
             const auto exited = protocol::decode<protocol::ExecExited>(frame.payload);
             if (exited && !exited->error.empty()) fail(exited->error);
             if (exited) {
               code =
                   exited->status.signal != 0 ? 128 + exited->status.signal : exited->status.code;
             }
             if (exited && !exited->error.empty() && code == 0) code = 255;
             connection->close();
           },
       .closed = [&](const std::string& why) { fail(why); },
       .drained = nullptr});
  // As with any remote shell, the words are joined and read by a shell at the other end.
  const std::string line =
      join(std::vector<std::string>(arguments.begin() + 1, arguments.end()), " ");
  connection->send(
      protocol::raw(protocol::MessageType::kExec),
      protocol::encode(protocol::Exec{.task = arguments[0], .argv = {"sh", "-c", line}}));
  loop.run();
  return code;
}

}  // namespace dure::agent
