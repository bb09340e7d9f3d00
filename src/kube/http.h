#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "kube/credentials.h"
#include "kube/handle.h"

namespace dure::kube {

struct HttpCall {
  std::string method = "GET";
  std::string url;
  std::vector<std::string> headers;  // "Accept: application/json"
  std::string body;
  Duration timeout{30'000};  // of all of it; with `sink`, of silence
  // Takes the body of a good answer as it comes; false ends the exchange.
  std::function<bool(std::string_view)> sink;
  // Sent a second time it would do something else than once, so it is not, although a connection
  // that was kept has broken before a word of the answer: the server may have done it.
  bool once = false;
};

struct HttpResponse {
  long status = 0;
  std::string body;
  std::optional<Duration> retry_after;  // what the server asks for
};

// Requests to one server, over connections that are kept. Thread-safe.
class HttpClient {
 public:
  explicit HttpClient(const KubeAccess& access) : access_(access) {}

  // Unavailable if there was no answer. Denied if the server is not who it should be, or does not
  // take the certificate. An exchange that the sink or `stop` ended is a success.
  Result<HttpResponse> exchange(const HttpCall& request, const Credential& credential,
                                const std::stop_token& stop = {});

 private:
  CurlHandle takeHandle();

  const KubeAccess access_;
  std::mutex mutex_;
  std::vector<CurlHandle> idle_;  // guarded by mutex_; each has its connection
};

// When a certificate in PEM runs out; nothing if it is none.
std::optional<TimePoint> expiryOf(const std::string& certificate);

}  // namespace dure::kube
