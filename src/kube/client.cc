#include "kube/client.h"

#include <algorithm>
#include <random>

#include <curl/curl.h>
#include <fmt/core.h>

#include "base/log.h"
#include "base/wait.h"

namespace dure::kube {
namespace {

using nlohmann::json;
using SteadyClock = std::chrono::steady_clock;

constexpr int kPage = 500;
// A watch is ended by the server after this long, and by us if it says nothing for a while more:
// servers send a bookmark every minute or so.
constexpr int kWatchSeconds = 480;
constexpr Duration kWatchSilence{540'000};
constexpr Duration kForever = std::chrono::hours(24 * 365);
constexpr Duration kFirstPause{100};
constexpr Duration kLongestPause{5'000};

class Query {
 public:
  void add(const char* name, const std::string& value) {
    if (value.empty()) return;
    text_ += fmt::format("{}{}={}", text_.empty() ? '?' : '&', name, escapedForUrl(value));
  }
  void add(const KubeSelector& selector) {
    add("labelSelector", selector.labels);
    add("fieldSelector", selector.fields);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// Times between attempts: longer and longer, and never quite the same for two clients.
class Backoff {
 public:
  Duration next() {
    static thread_local std::minstd_rand random{std::random_device{}()};
    const Duration pause = pause_;
    pause_ = std::min(kLongestPause, pause_ * 2);
    return pause / 2 + Duration(random() % static_cast<unsigned>(pause.count() / 2 + 1));
  }
  void reset() { pause_ = kFirstPause; }

 private:
  Duration pause_ = kFirstPause;
};

// What the server says about a request that it did not carry out.
struct Refusal {
  std::string reason;
  std::string message;
};

Refusal refusalIn(const json& status) {
  if (!status.is_object()) return {};
  const auto text = [&](const char* key) {
    const auto found = status.find(key);
    return found != status.end() && found->is_string() ? found->get<std::string>() : "";
  };
  return {text("reason"), text("message")};
}

Error errorOf(long status, const Refusal& refusal, const std::string& url) {
  const std::string message =
      refusal.message.empty() ? fmt::format("{}: HTTP {}", url, status) : refusal.message;
  switch (status) {
    case 401:
      return Error(Code::kDenied, "the cluster does not know this user: " + message);
    case 403:
      return Error(Code::kDenied, message);
    case 404:
    case 410:
      return Error(Code::kNotFound, message);
    case 409:
      return Error(refusal.reason == "AlreadyExists" ? Code::kExists : Code::kConflict, message);
    case 400:
    case 405:
    case 415:
    case 422:
      return Error(Code::kInvalid, message);
    default:
      return Error(Code::kUnavailable, message);
  }
}

bool mayPass(long status) {
  return status == 429 || status == 500 || status == 502 || status == 503 || status == 504;
}

json deleteBody(const DeleteOptions& options) {
  json body = {
      {"kind", "DeleteOptions"}, {"apiVersion", "v1"}, {"propagationPolicy", options.propagation}};
  if (options.grace_seconds) body["gracePeriodSeconds"] = *options.grace_seconds;
  if (!options.uid.empty()) body["preconditions"] = {{"uid", options.uid}};
  return body;
}

// Neither headers nor bodies: those have secrets. Nor the query, which may be long.
void logRequest(const char* method, const std::string& path, const Result<HttpResponse>& response,
                SteadyClock::duration took) {
  if (!isLogged(LogLevel::kDebug)) return;
  logDebug("kube", "{} {}: {} after {} ms", method, path.substr(0, path.find('?')),
           response ? std::to_string(response->status) : response.error().message(),
           std::chrono::duration_cast<Duration>(took).count());
}

std::string versionOf(const json& object) {
  const auto metadata = object.find("metadata");
  if (metadata == object.end() || !metadata->is_object()) return "";
  return metadata->value("resourceVersion", "");
}

}  // namespace

std::string escapedForUrl(const std::string& text) {
  char* made = curl_easy_escape(nullptr, text.c_str(), static_cast<int>(text.size()));
  std::string copy = made == nullptr ? "" : made;
  curl_free(made);
  return copy;
}

struct KubeClient::Call {
  const char* method = "GET";
  std::string path;  // with the query
  json body;
  const char* content_type = "application/json";
  // Sent a second time it would do something else than once.
  bool once = false;
  std::function<bool(std::string_view)> sink;
  Duration silence{0};  // with `sink`
};

std::string KubeAddress::path() const {
  const std::string_view api(kind.api);
  std::string path = fmt::format("{}/{}", api == "v1" ? "/api" : "/apis", api);
  if (kind.namespaced && !name_space.empty()) path += "/namespaces/" + escapedForUrl(name_space);
  path += std::string("/") + kind.plural;
  if (!name.empty()) path += "/" + escapedForUrl(name);
  if (!part.empty()) path += "/" + part;
  return path;
}

KubeClient::KubeClient(KubeAccess access, Duration patience)
    : access_(std::move(access)), patience_(patience), credentials_(access_), http_(access_) {}

std::vector<std::string> KubeClient::headersFor(const Credential& credential) const {
  std::vector<std::string> headers{"Accept: application/json", "User-Agent: dure/" DURE_VERSION};
  if (!credential.token.empty()) headers.push_back("Authorization: Bearer " + credential.token);
  if (!access_.impersonate.empty()) headers.push_back("Impersonate-User: " + access_.impersonate);
  return headers;
}

Result<WebSocket> KubeClient::upgrade(const std::string& path, const std::string& protocol) {
  auto credential = credentials_.current();
  if (!credential) return std::move(credential).error();
  // What comes is no object.
  std::vector<std::string> headers = headersFor(*credential);
  std::erase_if(headers, [](const std::string& header) { return header.starts_with("Accept:"); });
  return WebSocket::open(access_, *credential, access_.server + path, protocol, headers, patience_);
}

Result<HttpResponse> KubeClient::send(const Call& call, const std::stop_token& stop) {
  const auto deadline = SteadyClock::now() + patience_;
  Backoff backoff;
  bool renewed = false;
  while (true) {
    auto credential = credentials_.current();
    if (!credential) return std::move(credential).error();
    HttpCall request{.method = call.method,
                     .url = access_.server + call.path,
                     .headers = headersFor(*credential),
                     .body = call.body.is_null() ? "" : call.body.dump(),
                     .timeout = call.sink ? call.silence : patience_,
                     .sink = call.sink,
                     .once = call.once && !call.sink};
    if (!request.body.empty())
      request.headers.push_back(std::string("Content-Type: ") + call.content_type);
    const auto asked = SteadyClock::now();
    auto response = http_.exchange(request, *credential, stop);
    logRequest(call.method, call.path, response, SteadyClock::now() - asked);
    Duration pause = backoff.next();
    if (response) {
      if (response->status < 300 || stop.stop_requested()) return response;
      if (response->status == 401 && !renewed && credentials_.renew()) {
        renewed = true;
        continue;
      }
      const auto said = json::parse(response->body, nullptr, false);
      Error error = errorOf(response->status, refusalIn(said), call.path);
      // The server has not begun with what it sends back to come later.
      const bool again = mayPass(response->status) && (!call.once || response->retry_after);
      if (response->retry_after) pause = std::max(pause, *response->retry_after);
      if (!again || SteadyClock::now() + pause >= deadline) return error;
    } else {
      const auto expiry = expiryOf(credential->certificate);
      if (expiry && *expiry < std::chrono::system_clock::now()) {
        return Error(Code::kDenied,
                     fmt::format("the client certificate of context {} ran out on {}",
                                 access_.context, formatTime(*expiry)));
      }
      const bool again = response.error().code() == Code::kUnavailable && !call.once;
      if (!again || SteadyClock::now() + pause >= deadline) return std::move(response).error();
    }
    if (!sleepFor(pause, stop)) return HttpResponse{};
  }
}

Result<json> KubeClient::sendForObject(const Call& call) {
  auto response = send(call);
  if (!response) return std::move(response).error();
  json object = json::parse(response->body, nullptr, false);
  if (!object.is_object()) return Error(Code::kUnavailable, call.path + ": the answer is no JSON");
  return object;
}

Result<json> KubeClient::get(const KubeAddress& address) {
  return sendForObject({.path = address.path()});
}

Result<json> KubeClient::create(const KubeAddress& address, const json& object, bool dry_run) {
  KubeAddress all = address;
  all.name.clear();
  return sendForObject({.method = "POST",
                        .path = all.path() + (dry_run ? "?dryRun=All" : ""),
                        .body = object,
                        .once = true});
}

Result<json> KubeClient::replace(const KubeAddress& address, const json& object) {
  // A second time it would meet the version that the first has made.
  return sendForObject({.method = "PUT", .path = address.path(), .body = object, .once = true});
}

Result<json> KubeClient::patch(const KubeAddress& address, const json& patch, PatchType type) {
  const char* content = type == PatchType::kMerge       ? "application/merge-patch+json"
                        : type == PatchType::kStrategic ? "application/strategic-merge-patch+json"
                                                        : "application/json-patch+json";
  return sendForObject({.method = "PATCH",
                        .path = address.path(),
                        .body = patch,
                        .content_type = content,
                        .once = type == PatchType::kJson});
}

Result<json> KubeClient::apply(const KubeAddress& address, const json& object,
                               const std::string& manager, bool force) {
  Query query;
  query.add("fieldManager", manager);
  query.add("force", force ? "true" : "");
  // JSON is YAML.
  return sendForObject({.method = "PATCH",
                        .path = address.path() + query.text(),
                        .body = object,
                        .content_type = "application/apply-patch+yaml"});
}

Status KubeClient::remove(const KubeAddress& address, const DeleteOptions& options) {
  auto done = send({.method = "DELETE", .path = address.path(), .body = deleteBody(options)});
  if (done || done.error().code() == Code::kNotFound) return {};
  return std::move(done).error();
}

Status KubeClient::removeAll(const KubeAddress& address, const KubeSelector& selector,
                             const DeleteOptions& options) {
  Query query;
  query.add(selector);
  auto done = send(
      {.method = "DELETE", .path = address.path() + query.text(), .body = deleteBody(options)});
  if (!done) return std::move(done).error();
  return {};
}

Result<std::string> KubeClient::list(const KubeAddress& address, const KubeSelector& selector,
                                     const std::function<void(json&&)>& take) {
  std::string next;
  while (true) {
    Query query;
    query.add(selector);
    query.add("limit", std::to_string(kPage));
    query.add("continue", next);
    auto page = sendForObject({.path = address.path() + query.text()});
    if (!page) return std::move(page).error();
    const auto items = page->find("items");
    if (items != page->end() && items->is_array()) {
      for (json& item : *items) take(std::move(item));
    }
    const json metadata = page->value("metadata", json::object());
    next = metadata.value("continue", "");
    if (next.empty()) return metadata.value("resourceVersion", "");
  }
}

Result<std::vector<json>> KubeClient::listAll(const KubeAddress& address,
                                              const KubeSelector& selector) {
  std::vector<json> all;
  auto version = list(address, selector, [&](json&& object) { all.push_back(std::move(object)); });
  if (!version) return std::move(version).error();
  return all;
}

Status KubeClient::watchFrom(std::string& version, const KubeAddress& address,
                             const KubeSelector& selector,
                             const std::function<void(WatchEvent, json&&)>& take,
                             const std::stop_token& stop) {
  Query query;
  query.add("watch", "true");
  query.add("allowWatchBookmarks", "true");
  query.add("resourceVersion", version);
  query.add("timeoutSeconds", std::to_string(kWatchSeconds));
  query.add(selector);
  std::optional<Error> failed;
  std::string line;
  const auto takeLine = [&](std::string_view text) {
    json event = json::parse(text, nullptr, false);
    const std::string type = event.is_object() ? event.value("type", "") : "";
    if (type.empty() || !event["object"].is_object()) {
      failed = Error(Code::kUnavailable, "the watch of " + address.path() + " is garbled");
      return false;
    }
    json object = std::move(event["object"]);
    if (type == "ERROR") {
      failed = errorOf(object.value("code", 500), refusalIn(object), address.path());
      return false;
    }
    version = versionOf(object);
    if (type == "BOOKMARK") return true;
    take(type == "ADDED"      ? WatchEvent::kAdded
         : type == "MODIFIED" ? WatchEvent::kModified
                              : WatchEvent::kDeleted,
         std::move(object));
    return true;
  };
  auto done = send({.path = address.path() + query.text(),
                    .once = true,  // what to do after an interruption is decided by the caller
                    .sink =
                        [&](std::string_view bytes) {
                          line += bytes;
                          std::size_t begin = 0;
                          for (auto end = line.find('\n'); end != std::string::npos;
                               begin = end + 1, end = line.find('\n', begin)) {
                            const std::string_view one(line.data() + begin, end - begin);
                            if (!one.empty() && !takeLine(one)) return false;
                          }
                          line.erase(0, begin);
                          return true;
                        },
                    .silence = kWatchSilence},
                   stop);
  if (failed) return *failed;
  if (!done) return std::move(done).error();
  return {};
}

Status KubeClient::logs(const std::string& name_space, const std::string& pod,
                        const LogOptions& options,
                        const std::function<bool(std::string_view)>& take,
                        const std::stop_token& stop) {
  Query query;
  query.add("container", options.container);
  query.add("follow", options.follow ? "true" : "");
  query.add("previous", options.previous ? "true" : "");
  if (options.tail) query.add("tailLines", std::to_string(*options.tail));
  if (options.since_seconds) query.add("sinceSeconds", std::to_string(*options.since_seconds));
  const KubeAddress address{kinds::kPods, name_space, pod, "log"};
  // A program may be silent for as long as it likes.
  auto done = send({.path = address.path() + query.text(),
                    .once = true,
                    .sink = take,
                    .silence = options.follow ? kForever : patience_},
                   stop);
  if (!done) return std::move(done).error();
  return {};
}

Result<bool> KubeClient::isAllowed(const std::string& verb, const KubeAddress& address) {
  const std::string_view api(address.kind.api);
  const auto slash = api.find('/');
  json attributes = {{"verb", verb},
                     {"resource", address.kind.plural},
                     {"group", slash == api.npos ? "" : std::string(api.substr(0, slash))}};
  if (address.kind.namespaced) attributes["namespace"] = address.name_space;
  if (!address.name.empty()) attributes["name"] = address.name;
  if (!address.part.empty()) attributes["subresource"] = address.part;
  auto answer = sendForObject({.method = "POST",
                               .path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
                               .body = {{"apiVersion", "authorization.k8s.io/v1"},
                                        {"kind", "SelfSubjectAccessReview"},
                                        {"spec", {{"resourceAttributes", attributes}}}}});
  if (!answer) return std::move(answer).error();
  return answer->value("status", json::object()).value("allowed", false);
}

void keepWatching(KubeClient& client, const KubeWatch& watch, const std::stop_token& stop) {
  Backoff backoff;
  std::string version;  // empty: everything must be listed
  bool in_trouble = false;
  while (!stop.stop_requested()) {
    Status status;
    if (version.empty()) {
      std::vector<json> all;
      auto listed = client.list(watch.address, watch.selector,
                                [&](json&& object) { all.push_back(std::move(object)); });
      if (listed) {
        version = *std::move(listed);
        watch.replaced(std::move(all));
      } else {
        status = std::move(listed).error();
      }
    }
    if (status) {
      if (std::exchange(in_trouble, false) && watch.trouble) watch.trouble(std::nullopt);
      const auto began = SteadyClock::now();
      status = client.watchFrom(version, watch.address, watch.selector, watch.changed, stop);
      // One that ends at once again and again is not asked without a pause.
      if (SteadyClock::now() - began > kLongestPause) backoff.reset();
    }
    if (stop.stop_requested()) return;
    if (!status) {
      // What may be listed but not watched is listed again and again.
      const Code code = status.error().code();
      if (code == Code::kNotFound || code == Code::kDenied) version.clear();
      if (!std::exchange(in_trouble, true) && watch.trouble) watch.trouble(status.error());
    }
    if (!sleepFor(backoff.next(), stop)) return;
  }
}

}  // namespace dure::kube
