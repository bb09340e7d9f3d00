#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "net/asio.h"

namespace dure::net {

struct HttpRequest {
  std::string method;
  std::string path;
  std::string body;
};

struct HttpReply {
  int status = 200;
  std::string type = "application/octet-stream";
  std::string body;
};

// Answers HTTP/1.1 requests from the loop's thread, until it is destroyed. Connections are kept
// alive; a request above a megabyte, or one that takes longer than half a minute to arrive, ends
// its connection.
class HttpServer {
 public:
  using Handler = std::function<HttpReply(const HttpRequest&)>;

  // Port 0 takes any free one.
  static Result<std::unique_ptr<HttpServer>> listen(asio::io_context& loop,
                                                    const std::string& address, int port,
                                                    Handler handler);
  ~HttpServer();
  int port() const;

 private:
  struct State;
  explicit HttpServer(std::shared_ptr<State> state) : state_(std::move(state)) {}
  // Shared with the operations under way, which may outlive the server but call nobody then.
  std::shared_ptr<State> state_;
};

}  // namespace dure::net
