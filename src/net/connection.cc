#include "net/connection.h"

#include <sys/socket.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>
#include <cstring>

#include "net/tls.h"

namespace dure::net {
namespace {

constexpr std::size_t kReadSize = 256u << 10u;
// Small messages are gathered into writes of about this size.
constexpr std::size_t kWriteSize = 256u << 10u;

std::string addressText(const asio::generic::stream_protocol::endpoint& endpoint) {
  if (endpoint.protocol().family() != AF_INET && endpoint.protocol().family() != AF_INET6)
    return "";
  asio::ip::tcp::endpoint tcp;
  tcp.resize(endpoint.size());
  std::memcpy(tcp.data(), endpoint.data(), endpoint.size());
  return tcp.address().to_string();
}

}  // namespace

// The lower end is the connection's own socket, which knows how to close.
struct Connection::Tls {
  std::shared_ptr<asio::ssl::context> context;
  TlsSide side;
  asio::ssl::stream<Socket&> stream;
};

Connection::Connection(Socket socket) : socket_(std::move(socket)) {}

Connection::~Connection() = default;

void Connection::encrypt(const std::string& secret, TlsSide side) {
  auto context = tlsWithSecret(secret);
  asio::ssl::stream<Socket&> stream(socket_, *context);
  tls_.reset(new Tls{std::move(context), side, std::move(stream)});
}

void Connection::start(Handlers handlers) {
  handlers_ = std::move(handlers);
  boost::system::error_code ignored;
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  if (tls_) return shakeHands();
  ready_ = true;
  read();
}

void Connection::shakeHands() {
  const auto side = tls_->side == TlsSide::kClient ? asio::ssl::stream_base::client
                                                   : asio::ssl::stream_base::server;
  tls_->stream.async_handshake(side,
                               [self = shared_from_this()](const boost::system::error_code& error) {
                                 if (self->closed_) return;
                                 if (error)
                                   return self->fail("no agreement on a key: " + error.message());
                                 // A server may show a certificate instead, and anybody has one.
                                 if (SSL_session_reused(self->tls_->stream.native_handle()) == 0)
                                   return self->fail("the other end does not know the secret");
                                 self->ready_ = true;
                                 if (!self->outgoing_.empty()) self->write();
                                 self->read();
                               });
}

std::string Connection::localAddress() const {
  boost::system::error_code error;
  const auto endpoint = socket_.local_endpoint(error);
  return error ? "" : addressText(endpoint);
}

std::string Connection::peerAddress() const {
  boost::system::error_code error;
  const auto endpoint = socket_.remote_endpoint(error);
  return error ? "" : addressText(endpoint);
}

void Connection::setLimit(std::size_t limit) {
  limit_ = limit;
  reader_.setLimit(limit);
}

void Connection::read() {
  // Who may not send much yet gets a small buffer.
  incoming_.resize(std::min(kReadSize, limit_));
  const auto took = [self = shared_from_this()](const boost::system::error_code& error,
                                                std::size_t size) { self->took(error, size); };
  if (tls_) {
    tls_->stream.async_read_some(asio::buffer(incoming_), took);
  } else {
    socket_.async_read_some(asio::buffer(incoming_), took);
  }
}

void Connection::took(const boost::system::error_code& error, std::size_t size) {
  if (closed_) return;
  // Encrypted, the end is not said goodbye to: what matters is said in frames.
  if (error == asio::error::eof || error == asio::ssl::error::stream_truncated) {
    return fail("the connection was closed");
  }
  if (error) return fail(error.message());
  reader_.feed(std::string_view(incoming_).substr(0, size));
  while (!closed_) {
    const auto frame = reader_.next();
    if (!frame) return fail(frame.error().message());
    if (!*frame) break;
    if (finishing_ || !handlers_.frame) continue;
    ++handling_;
    handlers_.frame(**frame);
    --handling_;
  }
  if (!closed_) read();
}

void Connection::send(std::uint8_t type, std::string_view payload) {
  if (closed_ || finishing_) return;
  if (outgoing_.empty() || outgoing_.back().size() + payload.size() > kWriteSize) {
    outgoing_.emplace_back();
  }
  appendFrame(outgoing_.back(), type, payload);
  queued_ += payload.size() + kFrameHeader;
  if (writing_.empty() && ready_) write();
}

void Connection::write() {
  writing_ = std::move(outgoing_.front());
  outgoing_.pop_front();
  const auto gave = [self = shared_from_this()](const boost::system::error_code& error,
                                                std::size_t) { self->gave(error); };
  if (tls_) {
    asio::async_write(tls_->stream, asio::buffer(writing_), gave);
  } else {
    asio::async_write(socket_, asio::buffer(writing_), gave);
  }
}

void Connection::gave(const boost::system::error_code& error) {
  if (closed_) return;
  if (error) return fail(error.message());
  const bool was_high = queued_ > kHighWater / 2;
  queued_ -= writing_.size();
  writing_.clear();
  if (!outgoing_.empty()) {
    write();
  } else if (finishing_) {
    return endSending();
  }
  if (finishing_) return;
  const bool is_low = queued_ <= kHighWater / 2;
  if (!was_high || !is_low || !handlers_.drained) return;
  ++handling_;
  handlers_.drained();
  --handling_;
}

void Connection::fail(const std::string& why) {
  if (closed_) return;
  const auto tell = std::move(handlers_.closed);
  close();
  if (tell && !finishing_) tell(why);
}

void Connection::finish() {
  if (closed_) return;
  finishing_ = true;
  if (writing_.empty() && outgoing_.empty()) endSending();
}

// Closing a socket while something unread is in it makes the system drop what the peer has not
// taken yet. So we only say that there is no more, and read on until the peer has closed too.
void Connection::endSending() {
  boost::system::error_code error;
  socket_.shutdown(Socket::shutdown_send, error);
  if (error) close();
}

void Connection::close() {
  if (closed_) return;
  // The handlers may hold the last reference to us.
  const auto self = shared_from_this();
  closed_ = true;
  boost::system::error_code ignored;
  socket_.close(ignored);
  // They may also hold what holds us, so they are let go; but not while one of them is running.
  if (handling_ == 0) {
    handlers_ = {};
  } else {
    asio::post(socket_.get_executor(), [self] { self->handlers_ = {}; });
  }
}

}  // namespace dure::net
