#include "net/connection.h"

#include <sys/socket.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <cstring>

namespace dure {
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

void Connection::start(Handlers handlers) {
  handlers_ = std::move(handlers);
  boost::system::error_code ignored;
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  incoming_.resize(kReadSize);
  read();
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

void Connection::read() {
  socket_.async_read_some(
      asio::buffer(incoming_),
      [self = shared_from_this()](const boost::system::error_code& error, std::size_t size) {
        if (self->closed_) return;
        if (error == asio::error::eof) return self->fail("the connection was closed");
        if (error) return self->fail(error.message());
        self->reader_.feed(std::string_view(self->incoming_).substr(0, size));
        while (!self->closed_) {
          const auto frame = self->reader_.next();
          if (!frame) return self->fail(frame.error().message());
          if (!*frame) break;
          if (self->finishing_ || !self->handlers_.frame) continue;
          ++self->handling_;
          self->handlers_.frame(**frame);
          --self->handling_;
        }
        if (!self->closed_) self->read();
      });
}

void Connection::send(std::uint8_t type, std::string_view payload) {
  if (closed_ || finishing_) return;
  if (outgoing_.empty() || outgoing_.back().size() + payload.size() > kWriteSize) {
    outgoing_.emplace_back();
  }
  appendFrame(outgoing_.back(), type, payload);
  queued_ += payload.size() + kFrameHeader;
  if (writing_.empty()) write();
}

void Connection::write() {
  writing_ = std::move(outgoing_.front());
  outgoing_.pop_front();
  asio::async_write(
      socket_, asio::buffer(writing_),
      [self = shared_from_this()](const boost::system::error_code& error, std::size_t) {
        if (self->closed_) return;
        if (error) return self->fail(error.message());
        const bool was_high = self->queued_ > kHighWater / 2;
        self->queued_ -= self->writing_.size();
        self->writing_.clear();
        if (!self->outgoing_.empty()) {
          self->write();
        } else if (self->finishing_) {
          return self->endSending();
        }
        if (self->finishing_) return;
        const bool is_low = self->queued_ <= kHighWater / 2;
        if (!was_high || !is_low || !self->handlers_.drained) return;
        ++self->handling_;
        self->handlers_.drained();
        --self->handling_;
      });
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

}  // namespace dure
