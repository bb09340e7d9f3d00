#include "net/http_server.h"

#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <optional>

namespace dure::net {

namespace beast = boost::beast;
namespace http = boost::beast::http;
using tcp = asio::ip::tcp;

namespace {

constexpr std::size_t kMaxBody = 1u << 20u;
constexpr auto kPatience = std::chrono::seconds(30);

class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(tcp::socket socket, std::weak_ptr<const HttpServer::Handler> handler)
      : stream_(std::move(socket)), handler_(std::move(handler)) {}

  void read() {
    parser_.emplace();
    parser_->body_limit(kMaxBody);
    stream_.expires_after(kPatience);
    http::async_read(stream_, buffer_, *parser_,
                     [self = shared_from_this()](beast::error_code error, std::size_t) {
                       if (!error) self->answer();
                     });
  }

 private:
  void answer() {
    const auto handler = handler_.lock();
    // The server is gone, and with it what the handler would call.
    if (!handler) return;
    const auto& request = parser_->get();
    HttpReply reply = (*handler)({.method = std::string(request.method_string()),
                                  .path = std::string(request.target()),
                                  .body = request.body()});
    response_ = {};
    response_.version(request.version());
    response_.result(static_cast<unsigned>(reply.status));
    response_.set(http::field::content_type, reply.type);
    response_.keep_alive(request.keep_alive());
    response_.body() = std::move(reply.body);
    response_.prepare_payload();
    http::async_write(stream_, response_,
                      [self = shared_from_this()](beast::error_code error, std::size_t) {
                        if (!error && self->response_.keep_alive()) self->read();
                      });
  }

  beast::tcp_stream stream_;
  std::weak_ptr<const HttpServer::Handler> handler_;
  beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::string_body>> parser_;
  http::response<http::string_body> response_;
};

}  // namespace

struct HttpServer::State : std::enable_shared_from_this<State> {
  State(asio::io_context& loop, Handler h)
      : acceptor(loop), again(loop), handler(std::make_shared<const Handler>(std::move(h))) {}

  void accept() {
    acceptor.async_accept(
        [self = shared_from_this()](const boost::system::error_code& error, tcp::socket socket) {
          if (error == asio::error::operation_aborted || !self->acceptor.is_open()) return;
          if (error) return self->acceptLater();
          std::make_shared<Session>(std::move(socket), self->handler)->read();
          self->accept();
        });
  }

  // No descriptors left, most likely: at once it would be no better.
  void acceptLater() {
    again.expires_after(std::chrono::milliseconds(100));
    again.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
      if (!error && self->acceptor.is_open()) self->accept();
    });
  }

  tcp::acceptor acceptor;
  asio::steady_timer again;
  std::shared_ptr<const Handler> handler;
};

Result<std::unique_ptr<HttpServer>> HttpServer::listen(asio::io_context& loop,
                                                       const std::string& address, int port,
                                                       Handler handler) {
  if (port < 0 || port > 65535) {
    return Error(Code::kInvalid, "there is no port " + std::to_string(port));
  }
  auto state = std::make_shared<State>(loop, std::move(handler));
  try {
    const tcp::endpoint endpoint(asio::ip::make_address(address),
                                 static_cast<unsigned short>(port));
    state->acceptor.open(endpoint.protocol());
    state->acceptor.set_option(asio::socket_base::reuse_address(true));
    state->acceptor.bind(endpoint);
    state->acceptor.listen();
  } catch (const boost::system::system_error& error) {
    return Error(Code::kUnavailable, "listen on " + address + ":" + std::to_string(port) + ": " +
                                         error.code().message());
  }
  state->accept();
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(state)));
}

HttpServer::~HttpServer() {
  boost::system::error_code ignored;
  state_->acceptor.close(ignored);
  state_->again.cancel();
  state_->handler.reset();
}

int HttpServer::port() const { return state_->acceptor.local_endpoint().port(); }

}  // namespace dure::net
