#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "serve/access_log.h"
#include "serve/http_request.h"
#include "serve/metrics.h"
#include "serve/service.h"

namespace dure::serve {

struct WebOptions {
  std::string host = "127.0.0.1";
  int port = 8080;          // 0: any free one
  std::string certificate;  // PEM files; both or none
  std::string key;
  std::size_t connections = 4096;
  std::size_t threads = 1;
  HttpLimits limits;
  Duration head_time{10'000};   // from the first byte of a request to the end of its head
  Duration body_time{60'000};   // for the body
  Duration write_time{60'000};  // for a reply to be taken
  Duration idle_time{75'000};   // between two requests
};

// Speaks HTTP/1.1, plain or over TLS, with threads of its own. Connections stay open from one
// request to the next; requests that are sent ahead (pipelining) are answered in their order.
class WebServer {
 public:
  // `service`, `metrics` and `log` (which may be null) outlive it.
  static Result<std::unique_ptr<WebServer>> listen(const WebOptions& options, Service& service,
                                                   Metrics& metrics, AccessLog* log);
  WebServer(const WebServer&) = delete;
  // Closes everything at once.
  ~WebServer();

  int port() const;
  // Takes no more connections, closes those that wait for a request, and returns when the others
  // have had their reply, or after `patience`. False if some had not. After that no request is
  // handled; replies that are still on their way may come, and are dropped.
  bool stop(Duration patience);

 private:
  struct State;
  explicit WebServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace dure::serve
