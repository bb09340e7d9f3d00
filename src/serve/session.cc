#include "serve/session.h"

#include <array>
#include <optional>

#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>

namespace dure::serve {
namespace {

using tcp = asio::ip::tcp;
using ErrorCode = boost::system::error_code;

constexpr std::size_t kReadSize = 16u << 10u;
constexpr std::int64_t kMostBuffered = std::int64_t{1} << 30;
// What a refused request still sends is read for so long, so that its sender sees the reply: until
// nothing more comes, and in all.
constexpr std::chrono::seconds kLinger{2};
constexpr std::chrono::seconds kLongestLinger{30};
constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

// A plain socket or a TLS stream of one.
template <typename Stream>
class StreamSession : public Session, public std::enable_shared_from_this<StreamSession<Stream>> {
 public:
  StreamSession(Stream stream, SessionShared& shared)
      : stream_(std::move(stream)), shared_(shared), parser_(shared.options.limits) {
    ErrorCode error;
    const auto peer = stream_.lowest_layer().remote_endpoint(error);
    if (!error) client_ = peer.address().to_string();
    stream_.lowest_layer().set_option(tcp::no_delay(true), error);
  }

  ~StreamSession() override { account(0); }

  void start(std::function<void()> ended) override {
    ended_ = std::move(ended);
    deadline_ = Clock::now() + shared_.options.head_time;
    if constexpr (kSecure) {
      stream_.async_handshake(asio::ssl::stream_base::server,
                              [self = this->shared_from_this()](const ErrorCode& error) {
                                if (error) return self->close();
                                self->idle();
                                self->read();
                              });
    } else {
      idle();
      read();
    }
  }

  void checkTime(Clock::time_point now) override {
    if (closed_ || now < deadline_) return;
    // A TLS stream is still being read, and cannot be shut down meanwhile.
    if (!kSecure && phase_ == Phase::kReading && parser_.begun()) {
      phase_ = Phase::kWriting;
      return refuse(errorReply(408, "the request took too long to arrive"));
    }
    close();
  }

  void finish() override {
    last_ = true;
    if (phase_ == Phase::kReading && !parser_.begun()) close();
  }

  void close() override {
    if (closed_) return;
    closed_ = true;
    ErrorCode ignored;
    stream_.lowest_layer().shutdown(tcp::socket::shutdown_both, ignored);
    stream_.lowest_layer().close(ignored);
    if (ended_) ended_();
  }

 private:
  static constexpr bool kSecure = !std::is_same_v<Stream, tcp::socket>;
  enum class Phase { kReading, kAnswering, kWriting, kLingering };

  void idle() {
    phase_ = Phase::kReading;
    deadline_ = Clock::now() + shared_.options.idle_time;
  }

  void read() {
    stream_.async_read_some(asio::buffer(buffer_), [self = this->shared_from_this()](
                                                       const ErrorCode& error, std::size_t size) {
      if (self->closed_) return;
      // Answered meanwhile: it took too long.
      if (self->phase_ != Phase::kReading) return;
      if (error) return self->close();
      self->begin_ = 0;
      self->end_ = size;
      self->take();
    });
  }

  // What has been read, as far as it goes: to the end of a request, or to the end of the bytes.
  void take() {
    const bool fresh = !parser_.begun();
    const HttpParser::State before = parser_.state();
    begin_ += parser_.feed(std::string_view(buffer_.data() + begin_, end_ - begin_));
    if (!account(parser_.request().body.size()))
      return refuse(errorReply(Error(Code::kUnavailable, "too many large requests at once")));
    switch (parser_.state()) {
      case HttpParser::State::kDone:
        return dispatch();
      case HttpParser::State::kFailed:
        return refuse(errorReply(parser_.status(), parser_.why()));
      case HttpParser::State::kHead:
        if (fresh && parser_.begun()) deadline_ = Clock::now() + shared_.options.head_time;
        break;
      case HttpParser::State::kBody:
        if (before == HttpParser::State::kHead) {
          deadline_ = Clock::now() + shared_.options.body_time;
          if (parser_.request().expects_continue) return sendContinue();
        }
        break;
    }
    read();
  }

  void sendContinue() {
    asio::async_write(stream_, asio::buffer(kContinue),
                      [self = this->shared_from_this()](const ErrorCode& error, std::size_t) {
                        if (self->closed_ || self->phase_ != Phase::kReading) return;
                        if (error) return self->close();
                        self->read();
                      });
  }

  void dispatch() {
    phase_ = Phase::kAnswering;
    deadline_ = Clock::time_point::max();
    began_ = Clock::now();
    HttpRequest& request = parser_.request();
    keep_alive_ = request.keep_alive && !last_ && !shared_.stopping;
    without_body_ = request.method == "HEAD";
    if (shared_.log != nullptr) {
      method_ = request.method;
      target_ = request.target;
    }
    auto reply = [self = this->shared_from_this()](HttpReply made) {
      self->metricsOf(made.status);
      // Already as text: the threads that run models have more of a core each than this one.
      const int status = made.status;
      std::string text = replyText(made, self->keep_alive_, self->without_body_);
      asio::post(self->stream_.get_executor(), [self, status, text = std::move(text)]() mutable {
        self->send(status, std::move(text));
      });
    };
    shared_.service.handle(std::move(request), std::move(reply));
  }

  void metricsOf(int status) { shared_.metrics.requestDone(status, Clock::now() - began_); }

  // The connection ends after this reply: what comes behind cannot be told from the next request.
  void refuse(const HttpReply& reply) {
    phase_ = Phase::kAnswering;
    began_ = Clock::now();
    keep_alive_ = false;
    method_ = parser_.request().method;
    target_ = parser_.request().target;
    metricsOf(reply.status);
    send(reply.status, replyText(reply, false, false));
  }

  void send(int status, std::string text) {
    if (closed_) return;
    phase_ = Phase::kWriting;
    deadline_ = Clock::now() + shared_.options.write_time;
    account(0);
    reply_ = std::move(text);
    if (shared_.log != nullptr) {
      shared_.log->write({client_, method_, target_, status, reply_.size(), Clock::now() - began_});
    }
    // Most replies fit the socket's buffer, and need no turn of the loop.
    asio::async_write(stream_, asio::buffer(reply_),
                      [self = this->shared_from_this()](const ErrorCode& error, std::size_t) {
                        if (self->closed_) return;
                        if (error) return self->close();
                        self->afterReply();
                      });
  }

  void afterReply() {
    if (!keep_alive_ || last_) return linger();
    parser_.reset();
    idle();
    if (begin_ < end_) return take();
    read();
  }

  // So that the client sees the reply, and not a reset because of what it sent behind.
  void linger() {
    if constexpr (!kSecure) {
      ErrorCode ignored;
      stream_.lowest_layer().shutdown(tcp::socket::shutdown_send, ignored);
    } else if (!shut_) {
      shut_ = true;
      phase_ = Phase::kLingering;
      deadline_ = Clock::now() + kLinger;
      stream_.async_shutdown(
          [self = this->shared_from_this()](const ErrorCode&) { self->close(); });
      return;
    }
    phase_ = Phase::kLingering;
    deadline_ = Clock::now() + kLinger;
    linger_until_ = Clock::now() + kLongestLinger;
    discard();
  }

  void discard() {
    stream_.async_read_some(asio::buffer(buffer_), [self = this->shared_from_this()](
                                                       const ErrorCode& error, std::size_t) {
      if (error) return self->close();
      self->deadline_ = std::min(Clock::now() + kLinger, self->linger_until_);
      self->discard();
    });
  }

  // False if the bodies of all connections together are too much.
  bool account(std::size_t bytes) {
    const auto change = static_cast<std::int64_t>(bytes) - accounted_;
    accounted_ = static_cast<std::int64_t>(bytes);
    if (change == 0) return true;
    return shared_.buffered.fetch_add(change) + change <= kMostBuffered || change < 0;
  }

  Stream stream_;
  SessionShared& shared_;
  HttpParser parser_;
  std::function<void()> ended_;
  std::string client_;
  std::array<char, kReadSize> buffer_;
  std::size_t begin_ = 0;  // what of buffer_ is still to be taken
  std::size_t end_ = 0;
  Phase phase_ = Phase::kReading;
  Clock::time_point deadline_;
  Clock::time_point linger_until_;
  Clock::time_point began_;
  std::string reply_;
  std::string method_;
  std::string target_;
  std::int64_t accounted_ = 0;
  bool keep_alive_ = true;
  bool without_body_ = false;
  bool last_ = false;
  bool shut_ = false;
  bool closed_ = false;
};

}  // namespace

std::shared_ptr<Session> makeSession(tcp::socket socket, SessionShared& shared) {
  if (shared.tls == nullptr)
    return std::make_shared<StreamSession<tcp::socket>>(std::move(socket), shared);
  using Secure = asio::ssl::stream<tcp::socket>;
  return std::make_shared<StreamSession<Secure>>(Secure(std::move(socket), *shared.tls), shared);
}

}  // namespace dure::serve
