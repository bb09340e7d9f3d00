#include "serve/service.h"

#include <algorithm>
#include <charconv>

#include <fmt/core.h>

#include "base/text.h"
#include "serve/model_views.h"

namespace dure::serve {
namespace {

// The page runs what is in it and nothing else.
constexpr const char* kPolicy =
    "default-src 'self'; img-src 'self' data: blob:; frame-ancestors 'none'; base-uri 'none'";

HttpReply jsonReply(std::string text) { return {.body = std::move(text)}; }

HttpReply textReply(int status, std::string text) {
  return {.status = status, .type = "text/plain; charset=utf-8", .body = std::move(text)};
}

// "NAME[/versions/N][END]", where END is what is asked of the model.
struct ModelPath {
  std::string name;
  std::int64_t version = 0;  // 0: whichever is there
  std::string verb;          // ":predict", "/metadata", "/infer", "/ready", ""
  bool valid = false;
};

ModelPath readModelPath(std::string_view rest) {
  ModelPath path;
  constexpr std::string_view kVersions = "/versions/";
  for (const std::string_view verb :
       {":predict", ":classify", ":regress", "/metadata", "/infer", "/ready"}) {
    if (rest.size() > verb.size() && rest.ends_with(verb)) {
      path.verb = verb;
      rest.remove_suffix(verb.size());
      break;
    }
  }
  if (const std::size_t at = rest.rfind(kVersions); at != std::string_view::npos) {
    const std::string_view number = rest.substr(at + kVersions.size());
    const char* const end = number.data() + number.size();
    const auto [stop, error] = std::from_chars(number.data(), end, path.version);
    if (error != std::errc() || stop != end || path.version < 1) return path;
    rest = rest.substr(0, at);
  }
  path.name = rest;
  path.valid = !rest.empty();
  return path;
}

}  // namespace

bool Service::allowed(const HttpRequest& request, const std::string& path) const {
  if (token_.empty() || path == "/healthz" || path == "/readyz") return true;
  // The page itself is no secret; what it asks for is.
  if (path == "/" || path == "/index.html" || path == "/favicon.ico" || path == "/favicon.svg" ||
      path.starts_with("/assets/"))
    return true;
  const std::string_view given = request.header("authorization");
  constexpr std::string_view kBearer = "bearer ";
  if (given.size() <= kBearer.size()) return false;
  for (std::size_t i = 0; i < kBearer.size(); ++i) {
    const char c = given[i];
    if ((c >= 'A' && c <= 'Z' ? c + 32 : c) != kBearer[i]) return false;
  }
  return equalInConstantTime(given.substr(kBearer.size()), token_);
}

void Service::handle(HttpRequest request, Done done) {
  std::string path;
  const std::string_view target = request.target;
  if (!decodeTarget(target.substr(0, target.find('?')), path))
    return done(errorReply(400, "the path is not well encoded"));
  if (!allowed(request, path)) {
    HttpReply reply = errorReply(401, "this server wants a token: Authorization: Bearer TOKEN");
    reply.headers.emplace_back("WWW-Authenticate", "Bearer");
    return done(std::move(reply));
  }
  const bool asks = path.ends_with(":predict") || path.ends_with("/infer") ||
                    (path.starts_with("/api/models/") && path.ends_with("/explain"));
  if (asks) {
    if (request.method == "POST") return predict(std::move(request), path, std::move(done));
    HttpReply reply = errorReply(405, "predictions are asked for with POST");
    reply.headers.emplace_back("Allow", "POST");
    return done(std::move(reply));
  }
  if (request.method != "GET" && request.method != "HEAD") {
    HttpReply reply = errorReply(405, fmt::format("there is no {} here", request.method));
    reply.headers.emplace_back("Allow", "GET, HEAD");
    return done(std::move(reply));
  }
  done(answer(request, path));
}

HttpReply Service::answer(const HttpRequest& request, const std::string& path) {
  if (path == "/healthz") return textReply(200, "ok\n");
  if (path == "/readyz") return ready();
  if (path == "/metrics") {
    std::map<std::string, std::int64_t> versions;
    for (const SlotView& slot : store_.views())
      versions[slot.name] = slot.current == nullptr ? 0 : slot.current->version;
    HttpReply reply = textReply(200, metrics_.text(versions));
    reply.type = "text/plain; version=0.0.4; charset=utf-8";
    return reply;
  }
  if (path == "/api/models") return jsonReply(apiModelsText(store_.views()));
  if (path.starts_with("/v1/models/")) return v1(path.substr(11));
  if (path == "/v2" || path == "/v2/" || path.starts_with("/v2/")) return v2(path.substr(3));
  return page(request, path);
}

HttpReply Service::ready() const {
  if (stopping_) return textReply(503, "stopping\n");
  std::string waiting;
  for (const SlotView& slot : store_.views()) {
    if (slot.current == nullptr) waiting += slot.name + ": " + slot.why + "\n";
  }
  return waiting.empty() ? textReply(200, "ok\n") : textReply(503, waiting);
}

HttpReply Service::page(const HttpRequest& request, const std::string& path) const {
  for (const web::PageFile& file : page_) {
    if (file.path != path) continue;
    HttpReply reply{.type = std::string(file.type)};
    const bool zipped = request.header("accept-encoding").find("gzip") != std::string_view::npos;
    const auto bytes = zipped ? file.gzip : file.content;
    if (request.header("if-none-match") == file.etag) {
      reply.status = 304;
    } else {
      reply.body.assign(bytes.begin(), bytes.end());
      if (zipped) reply.headers.emplace_back("Content-Encoding", "gzip");
    }
    reply.headers.emplace_back("ETag", file.etag);
    reply.headers.emplace_back("Vary", "Accept-Encoding");
    reply.headers.emplace_back("Content-Security-Policy", kPolicy);
    reply.headers.emplace_back("X-Content-Type-Options", "nosniff");
    // Names of assets have a hash of what is in them.
    const bool hashed = file.path.starts_with("/assets/");
    reply.headers.emplace_back("Cache-Control",
                               hashed ? "public, max-age=31536000, immutable" : "no-cache");
    return reply;
  }
  return errorReply(404, fmt::format("there is nothing at {}", path));
}

// A model that is not there (yet).
HttpReply Service::missing(const std::string& name) const {
  const auto view = store_.view(name);
  if (!view) {
    std::vector<std::string> names;
    for (const SlotView& slot : store_.views()) names.push_back(slot.name);
    return errorReply(404,
                      fmt::format("there is no model {}; there is {}", name, join(names, ", ")));
  }
  return errorReply(Error(Code::kUnavailable, fmt::format("{}: {}", name, view->why)));
}

HttpReply Service::v1(const std::string& rest) const {
  const ModelPath path = readModelPath(rest);
  const auto view = store_.view(path.name);
  if (!path.valid || !view) return missing(path.valid ? path.name : rest);
  if (!path.verb.empty() && path.verb != "/metadata")
    return errorReply(404, fmt::format("there is no {} here", path.verb));
  if (path.version > 0 && (view->current == nullptr || view->current->version != path.version))
    return errorReply(
        404, fmt::format("there is no version {} of {} any more", path.version, path.name));
  if (path.verb.empty()) return jsonReply(v1StatusText(*view));
  if (view->current == nullptr) return missing(path.name);
  return jsonReply(v1MetadataText(*view->current));
}

HttpReply Service::v2(const std::string& rest) const {
  if (rest.empty() || rest == "/") {
    return jsonReply("{\"name\": \"dure\", \"version\": \"" DURE_VERSION
                     "\", \"extensions\": [\"binary_tensor_data\"]}\n");
  }
  if (rest == "/health/live") return jsonReply("{\"live\": true}\n");
  if (rest == "/health/ready") {
    const bool now = !stopping_ && store_.ready();
    HttpReply reply = jsonReply(now ? "{\"ready\": true}\n" : "{\"ready\": false}\n");
    if (!now) reply.status = 503;
    return reply;
  }
  constexpr std::string_view kModels = "/models/";
  if (!rest.starts_with(kModels)) return errorReply(404, "there is nothing at /v2" + rest);
  const ModelPath path = readModelPath(std::string_view(rest).substr(kModels.size()));
  const auto view = store_.view(path.name);
  if (!path.valid || !view) return missing(path.valid ? path.name : rest);
  const bool right_version =
      path.version == 0 || (view->current != nullptr && view->current->version == path.version);
  if (path.verb == "/ready") {
    const bool now = view->current != nullptr && right_version && !stopping_;
    HttpReply reply =
        jsonReply(fmt::format("{{\"name\": \"{}\", \"ready\": {}}}\n", path.name, now));
    if (!now) reply.status = 503;
    return reply;
  }
  if (!right_version)
    return errorReply(
        404, fmt::format("there is no version {} of {} any more", path.version, path.name));
  if (view->current == nullptr) return missing(path.name);
  if (!path.verb.empty()) return errorReply(404, fmt::format("there is no {} here", path.verb));
  return jsonReply(v2MetadataText(*view->current));
}

void Service::predict(HttpRequest request, const std::string& path, Done done) {
  const std::string_view whole = path;
  constexpr std::string_view kV1 = "/v1/models/";
  constexpr std::string_view kV2 = "/v2/models/";
  constexpr std::string_view kApi = "/api/models/";
  const bool first = whole.starts_with(kV1) && whole.ends_with(":predict");
  const bool second = whole.starts_with(kV2) && whole.ends_with("/infer");
  ModelPath wanted;
  if (first) {
    wanted = readModelPath(whole.substr(kV1.size()));
  } else if (second) {
    wanted = readModelPath(whole.substr(kV2.size()));
  } else if (whole.starts_with(kApi) && whole.ends_with("/explain")) {
    wanted.name = whole.substr(kApi.size(), whole.size() - kApi.size() - 8);
    wanted.valid = true;
  }
  if (!wanted.valid) return done(errorReply(404, fmt::format("there is nothing at {}", path)));
  BatchJob job{.model = store_.find(wanted.name)};
  if (job.model == nullptr) return done(missing(wanted.name));
  if (wanted.version > 0 && job.model->version != wanted.version) {
    return done(errorReply(
        404, fmt::format("there is no version {} of {} any more", wanted.version, wanted.name)));
  }
  job.task = first    ? makeV1Task(std::move(request))
             : second ? makeV2Task(std::move(request), {wanted.name, job.model->version})
                      : makeExplainTask(std::move(request));
  job.done = std::move(done);
  job.queued = std::chrono::steady_clock::now();
  if (batcher_.submit(job)) return;
  job.done(errorReply(Error(Code::kUnavailable, "too many requests wait already; try again")));
}

}  // namespace dure::serve
