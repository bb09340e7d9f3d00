#include "kube/http.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include <openssl/bio.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

namespace dure::kube {
namespace {

constexpr std::size_t kLargestBody = 64u << 20u;

struct Exchange {
  const HttpCall& request;
  const std::stop_token& stop;
  HttpResponse response;
  CURL* handle = nullptr;
  bool ended_by_us = false;
  bool too_large = false;
  std::chrono::steady_clock::time_point heard = std::chrono::steady_clock::now();
  bool silent = false;
  int sent = 0;
  bool is_again = false;

  bool isGood() {
    if (response.status == 0) curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &response.status);
    return response.status >= 200 && response.status < 300;
  }
};

std::size_t takeBody(char* data, std::size_t size, std::size_t count, void* to) {
  auto& exchange = *static_cast<Exchange*>(to);
  const std::string_view bytes(data, size * count);
  exchange.heard = std::chrono::steady_clock::now();
  if (exchange.request.sink && exchange.isGood()) {
    if (exchange.request.sink(bytes)) return bytes.size();
    exchange.ended_by_us = true;
    return 0;
  }
  exchange.too_large = exchange.response.body.size() + bytes.size() > kLargestBody;
  if (exchange.too_large) return 0;
  exchange.response.body += bytes;
  return bytes.size();
}

std::size_t takeHeader(char* data, std::size_t size, std::size_t count, void* to) {
  auto& response = static_cast<Exchange*>(to)->response;
  std::string_view line(data, size * count);
  constexpr std::string_view kRetry = "retry-after:";
  if (line.size() > kRetry.size() && strncasecmp(line.data(), kRetry.data(), kRetry.size()) == 0) {
    line.remove_prefix(kRetry.size());
    while (line.starts_with(' ')) line.remove_prefix(1);
    int seconds = 0;
    if (std::from_chars(line.data(), line.data() + line.size(), seconds).ec == std::errc())
      response.retry_after = std::chrono::seconds(std::clamp(seconds, 0, 600));
  }
  return size * count;
}

int watchTime(void* to, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  auto& exchange = *static_cast<Exchange*>(to);
  if (exchange.stop.stop_requested()) {
    exchange.ended_by_us = true;
    return 1;
  }
  exchange.silent = exchange.request.sink &&
                    std::chrono::steady_clock::now() - exchange.heard > exchange.request.timeout;
  return exchange.silent ? 1 : 0;
}

// Called before each attempt. libcurl makes another by itself if a connection that it has kept
// breaks before the answer.
int aboutToSend(void* to, char*, char*, int, int) {
  auto& exchange = *static_cast<Exchange*>(to);
  exchange.is_again = exchange.sent++ > 0;
  return exchange.is_again && exchange.request.once ? CURL_PREREQFUNC_ABORT : CURL_PREREQFUNC_OK;
}

}  // namespace

CurlHandle HttpClient::takeHandle() {
  const std::lock_guard lock(mutex_);
  if (idle_.empty()) return newHandle();
  CurlHandle handle = std::move(idle_.back());
  idle_.pop_back();
  curl_easy_reset(handle.get());  // of options; the connection stays
  return handle;
}

Result<HttpResponse> HttpClient::exchange(const HttpCall& request, const Credential& credential,
                                          const std::stop_token& stop) {
  CurlHandle owned = takeHandle();
  CURL* handle = owned.get();
  if (handle == nullptr) return Error(Code::kUnavailable, "there is no memory for a request");
  Exchange exchange{.request = request, .stop = stop, .handle = handle};

  const auto set = [&](CURLoption option, auto value) { curl_easy_setopt(handle, option, value); };
  const CurlList connect_to = address(handle, access_, credential, request.url);
  char reason[CURL_ERROR_SIZE] = "";
  set(CURLOPT_ERRORBUFFER, reason);
  if (!request.sink) set(CURLOPT_TIMEOUT_MS, static_cast<long>(request.timeout.count()));
  set(CURLOPT_WRITEFUNCTION, takeBody);
  set(CURLOPT_WRITEDATA, &exchange);
  set(CURLOPT_HEADERFUNCTION, takeHeader);
  set(CURLOPT_HEADERDATA, &exchange);
  set(CURLOPT_NOPROGRESS, 0L);
  set(CURLOPT_XFERINFOFUNCTION, watchTime);
  set(CURLOPT_XFERINFODATA, &exchange);
  set(CURLOPT_PREREQFUNCTION, aboutToSend);
  set(CURLOPT_PREREQDATA, &exchange);
  set(CURLOPT_CUSTOMREQUEST, request.method.c_str());
  CurlList headers;
  for (const std::string& header : request.headers) append(headers, header);
  if (!request.body.empty()) {
    set(CURLOPT_POSTFIELDS, request.body.c_str());
    set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
    append(headers, "Expect:");
  }
  set(CURLOPT_HTTPHEADER, headers.get());

  const CURLcode code = curl_easy_perform(handle);
  if (exchange.response.status == 0)
    curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &exchange.response.status);
  if (code == CURLE_OK) {
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(owned));
    return std::move(exchange.response);
  }
  if (exchange.ended_by_us) return std::move(exchange.response);
  const std::string server = authorityOf(access_.server);
  if (exchange.too_large) return Error(Code::kInvalid, "the answer of " + server + " is too large");
  if (exchange.is_again && request.once) {
    return Error(Code::kUnavailable, "the connection broke before " + server + " had answered");
  }
  if (exchange.silent) return Error(Code::kUnavailable, server + " has fallen silent");
  return connectionError(code, reason, access_);
}

std::optional<TimePoint> expiryOf(const std::string& certificate) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> bytes(
      BIO_new_mem_buf(certificate.data(), static_cast<int>(certificate.size())), BIO_free);
  const std::unique_ptr<X509, decltype(&X509_free)> parsed(
      PEM_read_bio_X509(bytes.get(), nullptr, nullptr, nullptr), X509_free);
  if (!parsed) return std::nullopt;
  std::tm when{};
  if (ASN1_TIME_to_tm(X509_get0_notAfter(parsed.get()), &when) != 1) return std::nullopt;
  return std::chrono::system_clock::from_time_t(timegm(&when));
}

}  // namespace dure::kube
