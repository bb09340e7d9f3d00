#include "serve/web_server.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>

#include <fmt/core.h>

#include "serve/session.h"

namespace dure::serve {
namespace {

using tcp = asio::ip::tcp;
using ErrorCode = boost::system::error_code;

constexpr std::chrono::milliseconds kSweep{250};

}  // namespace

// An event loop with its thread and its connections, which nobody else touches.
struct EventLoop {
  asio::io_context context{1};
  asio::executor_work_guard<asio::io_context::executor_type> work{context.get_executor()};
  asio::steady_timer sweep{context};
  std::unordered_map<Session*, std::shared_ptr<Session>> sessions;
  std::thread thread;

  void watchTimes() {
    sweep.expires_after(kSweep);
    sweep.async_wait([this](const ErrorCode& error) {
      if (error) return;
      const auto now = Session::Clock::now();
      // A session that ends takes itself out.
      std::vector<std::shared_ptr<Session>> all;
      all.reserve(sessions.size());
      for (const auto& [key, session] : sessions) all.push_back(session);
      for (const auto& session : all) session->checkTime(now);
      watchTimes();
    });
  }
};

namespace {

Result<std::unique_ptr<asio::ssl::context>> tlsOf(const WebOptions& options) {
  auto tls = std::make_unique<asio::ssl::context>(asio::ssl::context::tls_server);
  tls->set_options(asio::ssl::context::default_workarounds | asio::ssl::context::no_tlsv1 |
                   asio::ssl::context::no_tlsv1_1);
  ErrorCode error;
  tls->use_certificate_chain_file(options.certificate, error);
  if (error)
    return Error(Code::kInvalid,
                 fmt::format("--cert {}: {}", options.certificate, error.message()));
  tls->use_private_key_file(options.key, asio::ssl::context::pem, error);
  if (error)
    return Error(Code::kInvalid, fmt::format("--key {}: {}", options.key, error.message()));
  return tls;
}

}  // namespace

struct WebServer::State {
  State(const WebOptions& given, Service& service, Metrics& m, AccessLog* log)
      : options(given),
        metrics(m),
        shared{.options = options, .service = service, .metrics = m, .log = log, .tls = nullptr} {
    for (std::size_t i = 0; i < std::max<std::size_t>(options.threads, 1); ++i)
      loops.push_back(std::make_unique<EventLoop>());
    acceptor.emplace(loops.front()->context);
    again.emplace(loops.front()->context);
  }

  ~State() { halt(); }

  void halt() {
    closeAll();
    for (auto& loop : loops) {
      if (!loop->thread.joinable()) continue;
      asio::post(loop->context, [&loop = *loop] { loop.context.stop(); });
      loop->thread.join();
    }
  }

  Status open() {
    try {
      const tcp::endpoint endpoint(asio::ip::make_address(options.host),
                                   static_cast<unsigned short>(options.port));
      acceptor->open(endpoint.protocol());
      acceptor->set_option(asio::socket_base::reuse_address(true));
      if (endpoint.protocol() == tcp::v6()) acceptor->set_option(asio::ip::v6_only(false));
      acceptor->bind(endpoint);
      acceptor->listen();
      port = acceptor->local_endpoint().port();
    } catch (const boost::system::system_error& error) {
      return Error(Code::kUnavailable, fmt::format("listen on {}:{}: {}", options.host,
                                                   options.port, error.code().message()));
    }
    return {};
  }

  void run() {
    accept();
    for (auto& loop : loops) {
      loop->watchTimes();
      loop->thread = std::thread([&loop = *loop] { loop.context.run(); });
    }
  }

  void accept() {
    EventLoop& loop = *loops[next++ % loops.size()];
    acceptor->async_accept(loop.context, [this, &loop](const ErrorCode& error, tcp::socket socket) {
      if (!acceptor->is_open()) return;
      if (error) return acceptLater();
      if (metrics.connections() >= static_cast<std::int64_t>(options.connections)) {
        turnAway(std::move(socket));
      } else {
        metrics.connected(1);
        asio::post(loop.context, [this, &loop, taken = std::move(socket)]() mutable {
          begin(loop, std::move(taken));
        });
      }
      accept();
    });
  }

  void begin(EventLoop& loop, tcp::socket socket) {
    const auto session = makeSession(std::move(socket), shared);
    loop.sessions.emplace(session.get(), session);
    session->start([this, &loop, key = session.get()] {
      if (loop.sessions.erase(key) == 0) return;
      metrics.connected(-1);
      const std::lock_guard lock(mutex);
      changed.notify_all();
    });
  }

  // One small write, which the socket's buffer takes at once.
  void turnAway(tcp::socket socket) {
    HttpReply reply = errorReply(Error(Code::kUnavailable, "too many connections; try again"));
    metrics.requestDone(reply.status, {});
    ErrorCode ignored;
    socket.non_blocking(true, ignored);
    if (shared.tls == nullptr)
      socket.write_some(asio::buffer(replyText(reply, false, false)), ignored);
    socket.shutdown(tcp::socket::shutdown_send, ignored);
  }

  // No descriptors left, most likely: at once it would be no better.
  void acceptLater() {
    again->expires_after(std::chrono::milliseconds(100));
    again->async_wait([this](const ErrorCode& error) {
      if (!error && acceptor->is_open()) accept();
    });
  }

  void stopAccepting() {
    asio::post(loops.front()->context, [this] {
      ErrorCode ignored;
      acceptor->close(ignored);
      again->cancel();
    });
  }

  void forSessions(void (Session::*what)()) {
    for (auto& loop : loops) {
      asio::post(loop->context, [&loop = *loop, what] {
        std::vector<std::shared_ptr<Session>> all;
        for (const auto& [key, session] : loop.sessions) all.push_back(session);
        for (const auto& session : all) ((*session).*what)();
      });
    }
  }

  void closeAll() {
    stopAccepting();
    forSessions(&Session::close);
  }

  bool stop(Duration patience) {
    shared.stopping = true;
    stopAccepting();
    forSessions(&Session::finish);
    std::unique_lock lock(mutex);
    const bool all = changed.wait_for(lock, patience, [&] { return metrics.connections() == 0; });
    lock.unlock();
    halt();
    return all;
  }

  const WebOptions options;
  Metrics& metrics;
  std::unique_ptr<asio::ssl::context> tls;
  SessionShared shared;
  std::vector<std::unique_ptr<EventLoop>> loops;
  std::optional<tcp::acceptor> acceptor;
  std::optional<asio::steady_timer> again;
  std::size_t next = 0;
  int port = 0;
  std::mutex mutex;
  std::condition_variable changed;
};

Result<std::unique_ptr<WebServer>> WebServer::listen(const WebOptions& options, Service& service,
                                                     Metrics& metrics, AccessLog* log) {
  auto state = std::make_unique<State>(options, service, metrics, log);
  if (!options.certificate.empty()) {
    auto tls = tlsOf(options);
    if (!tls) return std::move(tls).error();
    state->tls = *std::move(tls);
    state->shared.tls = state->tls.get();
  }
  if (auto opened = state->open(); !opened) return std::move(opened).error();
  state->run();
  return std::unique_ptr<WebServer>(new WebServer(std::move(state)));
}

WebServer::WebServer(std::unique_ptr<State> state) : state_(std::move(state)) {}
WebServer::~WebServer() = default;

int WebServer::port() const { return state_->port; }
bool WebServer::stop(Duration patience) { return state_->stop(patience); }

}  // namespace dure::serve
