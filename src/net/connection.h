#pragma once

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "net/asio.h"
#include "net/frame.h"
#include "net/tls_side.h"

namespace dure::net {

// Frames over one TCP or Unix stream. Everything happens on the thread that runs the loop.
// Shared because every operation under way holds it until its callback has run.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Socket = asio::generic::stream_protocol::socket;

  struct Handlers {
    std::function<void(const Frame&)> frame;
    // Once, when the peer is gone or sent what is no frame: `why` is for people. Never after
    // this side called close().
    std::function<void(const std::string& why)> closed;
    // The queue of unsent bytes has become short again; may be empty.
    std::function<void()> drained;
  };

  explicit Connection(Socket socket);
  ~Connection();

  // Before start(): encrypts everything with a key that both ends know; the connection fails if the
  // peer does not know it.
  void encrypt(const std::string& secret, TlsSide side);

  void start(Handlers handlers);
  void send(std::uint8_t type, std::string_view payload);
  // Bytes that the peer has not taken yet. Above kHighWater a sender should wait for `drained`
  // (back-pressure).
  std::size_t queued() const { return queued_; }
  static constexpr std::size_t kHighWater = 1u << 20u;

  void setLimit(std::size_t limit);
  // Our own address on this connection: the one under which the peer's side knows this host.
  std::string localAddress() const;
  std::string peerAddress() const;

  // Sends what is queued, and closes when the peer has taken it and closed its own side. Calls no
  // handler any more. A peer that does not close keeps the connection open: see to that with
  // close().
  void finish();
  // Closes now, and drops what is queued. Calls no handler any more.
  void close();

 private:
  struct Tls;
  void shakeHands();
  void read();
  void took(const boost::system::error_code& error, std::size_t size);
  void write();
  void gave(const boost::system::error_code& error);
  void endSending();
  void fail(const std::string& why);

  Socket socket_;
  std::unique_ptr<Tls> tls_;
  Handlers handlers_;
  FrameReader reader_;
  std::string incoming_;
  std::size_t limit_ = kMaxFrame;
  std::deque<std::string> outgoing_;
  std::string writing_;
  std::size_t queued_ = 0;
  int handling_ = 0;    // handlers that are running
  bool ready_ = false;  // hands are shaken, if they are to be
  bool closed_ = false;
  bool finishing_ = false;
};

}  // namespace dure::net
