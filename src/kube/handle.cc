#include "kube/handle.h"

#include <string_view>

#include <fmt/core.h>

namespace dure::kube {
namespace {

constexpr long kConnectPatience = 10'000;  // ms

curl_blob blobOf(const std::string& text) {
  // Copied by curl.
  return {.data = const_cast<char*>(text.data()), .len = text.size(), .flags = CURL_BLOB_COPY};
}

void setTls(CURL* handle, const KubeAccess& access, const Credential& credential) {
  if (!access.authority.empty()) {
    const curl_blob blob = blobOf(access.authority);
    curl_easy_setopt(handle, CURLOPT_CAINFO_BLOB, &blob);
  }
  if (!credential.certificate.empty()) {
    const curl_blob certificate = blobOf(credential.certificate);
    const curl_blob key = blobOf(credential.key);
    curl_easy_setopt(handle, CURLOPT_SSLCERT_BLOB, &certificate);
    curl_easy_setopt(handle, CURLOPT_SSLKEY_BLOB, &key);
  }
  curl_easy_setopt(handle, CURLOPT_SSL_VERIFYPEER, access.insecure ? 0L : 1L);
  curl_easy_setopt(handle, CURLOPT_SSL_VERIFYHOST, access.insecure ? 0L : 2L);
}

// "host:port" of the server.
std::string_view authorityIn(std::string_view url) {
  const auto scheme = url.find("://");
  if (scheme != std::string_view::npos) url.remove_prefix(scheme + 3);
  return url.substr(0, url.find('/'));
}

std::string hostOf(std::string_view url) {
  std::string_view host = authorityIn(url);
  if (host.starts_with('[')) return std::string(host.substr(1, host.find(']') - 1));
  return std::string(host.substr(0, host.find(':')));
}

std::string portOf(std::string_view url) {
  const std::string_view authority = authorityIn(url);
  const auto colon = authority.rfind(':');
  const bool has_port =
      colon != std::string_view::npos && authority.find(']', colon) == authority.npos;
  if (has_port) return std::string(authority.substr(colon + 1));
  return url.starts_with("http:") ? "80" : "443";
}

}  // namespace

void append(CurlList& list, const std::string& line) {
  list.reset(curl_slist_append(list.release(), line.c_str()));
}

CurlHandle newHandle() {
  static const CURLcode initialised = curl_global_init(CURL_GLOBAL_DEFAULT);
  return CurlHandle(initialised == CURLE_OK ? curl_easy_init() : nullptr);
}

CurlList address(CURL* handle, const KubeAccess& access, const Credential& credential,
                 std::string url) {
  curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(handle, CURLOPT_CONNECTTIMEOUT_MS, kConnectPatience);
  curl_easy_setopt(handle, CURLOPT_TCP_KEEPALIVE, 1L);
  setTls(handle, access, credential);
  if (!access.proxy.empty()) curl_easy_setopt(handle, CURLOPT_PROXY, access.proxy.c_str());
  CurlList connect_to;
  if (!access.server_name.empty()) {
    // The name that the certificate has, at the address that the server has.
    const std::string host = hostOf(url), port = portOf(url);
    const std::string_view old = authorityIn(url);
    url.replace(static_cast<std::size_t>(old.data() - url.data()), old.size(),
                access.server_name + ":" + port);
    append(connect_to, fmt::format("{0}:{1}:{2}:{1}", access.server_name, port, host));
    curl_easy_setopt(handle, CURLOPT_CONNECT_TO, connect_to.get());
  }
  curl_easy_setopt(handle, CURLOPT_URL, url.c_str());
  return connect_to;
}

std::string authorityOf(const std::string& url) { return std::string(authorityIn(url)); }

Error connectionError(CURLcode code, const std::string& reason, const KubeAccess& access) {
  const std::string why = reason.empty() ? curl_easy_strerror(code) : reason;
  const std::string server = authorityOf(access.server);
  if (code == CURLE_PEER_FAILED_VERIFICATION)
    return Error(Code::kDenied, fmt::format("{} is not trusted: {}", server, why));
  if (code == CURLE_SSL_CERTPROBLEM)
    return Error(Code::kDenied, fmt::format("no secure connection with {}: {}", server, why));
  return Error(Code::kUnavailable, fmt::format("cannot reach the cluster at {}: {}", server, why));
}

}  // namespace dure::kube
