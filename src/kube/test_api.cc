#include "kube/test_api.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "kube/test_exec.h"

namespace dure::kube {
namespace {

using nlohmann::json;
using namespace std::chrono_literals;

// From one look whether the client of a stream is still there to the next.
constexpr auto kLook = 50ms;
constexpr const char* kStreamHead = "HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n";

std::string chunk(const std::string& bytes) {
  return fmt::format("{:x}\r\n{}\r\n", bytes.size(), bytes);
}

ApiRequest requestFor(const KubeKind& kind, const std::string& name_space) {
  ApiRequest request;
  request.api = kind.api;
  request.plural = kind.plural;
  request.name_space = kind.namespaced ? name_space : "";
  return request;
}

bool hasEnded(const json* pod) {
  if (pod == nullptr) return true;
  const std::string phase = pod->value("status", json::object()).value("phase", "");
  return phase == "Succeeded" || phase == "Failed";
}

}  // namespace

FakeApi::FakeApi()
    : server_([this](const TestServer::Asked& asked, const Send& send) {
        return handle(asked, send);
      }) {}

FakeApi::~FakeApi() {
  const std::lock_guard lock(mutex_);
  ending_ = true;
  changed_.notify_all();
}

KubeAccess FakeApi::access(const std::string& name_space) const {
  return {.context = "test", .server = server_.url(), .name_space = name_space, .token = "t"};
}

// ---- trouble

void FakeApi::add(const RequestMatch& match, Trouble trouble, int status, int times) {
  const std::lock_guard lock(mutex_);
  faults_.push_back({match, trouble, status, times});
}

void FakeApi::answer(const RequestMatch& match, int status, int times) {
  add(match, Trouble::kAnswer, status, times);
}
void FakeApi::loseReply(const RequestMatch& match, int times) {
  add(match, Trouble::kLoseReply, 0, times);
}
void FakeApi::hangUp(const RequestMatch& match, int times) {
  add(match, Trouble::kHangUp, 0, times);
}
void FakeApi::hold(const RequestMatch& match) { add(match, Trouble::kHold, 0, 1); }

int FakeApi::held() const {
  const std::lock_guard lock(mutex_);
  return held_;
}

void FakeApi::letGo() {
  const std::lock_guard lock(mutex_);
  ++let_go_;
  changed_.notify_all();
}

void FakeApi::endTrouble() {
  const std::lock_guard lock(mutex_);
  faults_.clear();
}

void FakeApi::forbid(const RequestMatch& match) {
  const std::lock_guard lock(mutex_);
  forbidden_.push_back(match);
}

void FakeApi::permitAll() {
  const std::lock_guard lock(mutex_);
  forbidden_.clear();
}

void FakeApi::setCommand(Command command) {
  const std::lock_guard lock(mutex_);
  command_ = std::move(command);
}

void FakeApi::cutStreams() {
  const std::lock_guard lock(mutex_);
  ++cuts_;
  changed_.notify_all();
}

void FakeApi::forgetVersions() {
  const std::lock_guard lock(mutex_);
  store_.forget();
  changed_.notify_all();
}

void FakeApi::setPage(std::size_t objects) {
  const std::lock_guard lock(mutex_);
  store_.setPage(objects);
}

// ---- the cluster

json FakeApi::get(const KubeAddress& address) const {
  const std::lock_guard lock(mutex_);
  const json* found = store_.find(keyOf(address));
  return found == nullptr ? json() : *found;
}

std::vector<json> FakeApi::all(const KubeKind& kind, const std::string& name_space) const {
  const std::lock_guard lock(mutex_);
  return store_.select(requestFor(kind, name_space));
}

std::vector<std::string> FakeApi::names(const KubeKind& kind, const std::string& name_space) const {
  std::vector<std::string> names;
  for (const json& object : all(kind, name_space)) names.push_back(object["metadata"]["name"]);
  return names;
}

json FakeApi::put(const KubeAddress& address, const json& object) {
  const std::lock_guard lock(mutex_);
  store_.write(keyOf(address), object);
  changed_.notify_all();
  return *store_.find(keyOf(address));
}

void FakeApi::change(const KubeAddress& address, const std::function<void(json&)>& how) {
  const std::lock_guard lock(mutex_);
  const json* found = store_.find(keyOf(address));
  if (found == nullptr) return;
  json object = *found;
  how(object);
  store_.write(keyOf(address), std::move(object));
  changed_.notify_all();
}

void FakeApi::remove(const KubeAddress& address) {
  ApiRequest request = requestFor(address.kind, address.name_space);
  request.verb = "delete";
  request.name = address.name;
  const std::lock_guard lock(mutex_);
  store_.answer(request);
  changed_.notify_all();
}

void FakeApi::erase(const KubeAddress& address) {
  const std::lock_guard lock(mutex_);
  store_.erase(keyOf(address));
  changed_.notify_all();
}

void FakeApi::appendLog(const std::string& name_space, const std::string& pod,
                        const std::string& text) {
  const std::lock_guard lock(mutex_);
  logs_[name_space + "/" + pod] += text;
  changed_.notify_all();
}

int FakeApi::count(const RequestMatch& match) const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(
      std::count_if(asked_.begin(), asked_.end(),
                    [&](const ApiRequest& request) { return match.fits(request); }));
}

int FakeApi::watches() const {
  const std::lock_guard lock(mutex_);
  return watches_;
}

bool FakeApi::eventually(const std::function<bool()>& so, Duration patience) const {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (!so()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    // What it asks for may also change elsewhere than here.
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, 5ms);
  }
  return true;
}

// ---- answering

bool FakeApi::handle(const TestServer::Asked& asked, const Send& send) {
  const ApiRequest request = parseRequest(asked);
  std::unique_lock lock(mutex_);
  asked_.push_back(request);
  changed_.notify_all();
  const auto fault = takeFault(request);
  if (fault && fault->trouble == Trouble::kHangUp) return false;
  if (fault && fault->trouble == Trouble::kAnswer) {
    return reply(refusal(fault->status), send);
  }
  if (fault && fault->trouble == Trouble::kHold) {
    ++held_;
    const int until = let_go_ + 1;
    changed_.notify_all();
    changed_.wait(lock, [&] { return let_go_ >= until || ending_; });
    --held_;
  }
  if (request.plural == "selfsubjectaccessreviews") return reply(review(request), send);
  if (isForbidden(request)) {
    return reply(
        refusal(403, fmt::format("{} \"{}\" is forbidden: User \"test\" cannot {} "
                                 "resource \"{}\"",
                                 request.plural, request.name, request.verb, request.plural)),
        send);
  }
  if (request.verb == "watch" || request.part == "log") {
    lock.unlock();
    return request.verb == "watch" ? watch(request, send) : streamLog(request, send);
  }
  if (request.part == "exec") return runCommand(request, asked.headers, send);
  const ApiReply done = store_.answer(request);
  changed_.notify_all();
  if (fault && fault->trouble == Trouble::kLoseReply) return false;
  return reply(done, send);
}

std::optional<FakeApi::Fault> FakeApi::takeFault(const ApiRequest& request) {
  const auto found = std::find_if(faults_.begin(), faults_.end(),
                                  [&](const Fault& fault) { return fault.match.fits(request); });
  if (found == faults_.end()) return std::nullopt;
  Fault fault = *found;
  if (--found->left == 0) faults_.erase(found);
  return fault;
}

bool FakeApi::reply(const ApiReply& reply, const Send& send) const {
  return send(TestServer::answer(reply.status, reply.body.dump(),
                                 reply.status == 429 ? "Retry-After: 0\r\n" : ""));
}

bool FakeApi::isForbidden(const ApiRequest& request) const {
  return std::any_of(forbidden_.begin(), forbidden_.end(),
                     [&](const RequestMatch& match) { return match.fits(request); });
}

ApiReply FakeApi::review(const ApiRequest& request) const {
  const json asked = request.body.at("spec").at("resourceAttributes");
  ApiRequest wanted;
  wanted.verb = asked.value("verb", "");
  wanted.plural = asked.value("resource", "");
  wanted.name = asked.value("name", "");
  wanted.part = asked.value("subresource", "");
  json answer = request.body;
  answer["status"] = {{"allowed", !isForbidden(wanted)}};
  return {201, answer};
}

bool FakeApi::watch(const ApiRequest& request, const Send& send) {
  bool there = send(kStreamHead);
  std::int64_t version = std::atoll(request.value("resourceVersion").c_str());
  std::unique_lock lock(mutex_);
  const int cuts = cuts_;
  ++watches_;
  changed_.notify_all();
  while (there && !ending_ && cuts == cuts_) {
    const auto events = store_.eventsSince(version, request);
    std::string lines;
    for (const json& event : events.value_or(std::vector<json>{})) lines += event.dump() + "\n";
    if (!events) {
      lines = json{{"type", "ERROR"}, {"object", refusal(410, "too old resource version").body}}
                  .dump() +
              "\n";
    }
    version = store_.version();
    lock.unlock();
    there = send(lines.empty() ? "" : chunk(lines));
    if (!events) send("0\r\n\r\n");
    lock.lock();
    if (!events) {
      --watches_;
      return true;
    }
    changed_.wait_for(lock, kLook,
                      [&] { return ending_ || cuts != cuts_ || version != store_.version(); });
  }
  --watches_;
  return false;
}

bool FakeApi::runCommand(const ApiRequest& request, const std::string& headers, const Send& send) {
  const json* pod = store_.find(keyOf(request));
  if (pod == nullptr) return reply(refusal(404, "pods \"" + request.name + "\" not found"), send);
  if (pod->value("/status/phase"_json_pointer, "") != "Running") {
    return reply(refusal(500, "container not running"), send);
  }
  send(execHandshake(headers));
  if (!command_.out.empty()) send(execMessage(1, command_.out));
  if (!command_.err.empty()) send(execMessage(2, command_.err));
  if (!command_.code) return false;
  json status = {{"status", *command_.code == 0 ? "Success" : "Failure"}};
  if (*command_.code != 0) {
    status["reason"] = "NonZeroExitCode";
    status["details"]["causes"] =
        json::array({{{"reason", "ExitCode"}, {"message", std::to_string(*command_.code)}}});
  }
  send(execMessage(3, status.dump()));
  return false;
}

bool FakeApi::streamLog(const ApiRequest& request, const Send& send) {
  const ObjectKey key = keyOf(request);
  const bool follow = request.value("follow") == "true";
  std::unique_lock lock(mutex_);
  if (store_.find(key) == nullptr) {
    return reply(refusal(404, "pods \"" + key.name + "\" not found"), send);
  }
  bool there = send(kStreamHead);
  const int cuts = cuts_;
  std::size_t sent = 0;
  while (there && !ending_ && cuts == cuts_) {
    const std::string& log = logs_[key.name_space + "/" + key.name];
    const std::string more = log.substr(sent);
    sent = log.size();
    const bool last = !follow || hasEnded(store_.find(key));
    lock.unlock();
    there = send(more.empty() ? "" : chunk(more));
    if (last) return there && send("0\r\n\r\n");
    lock.lock();
    changed_.wait_for(lock, kLook, [&] {
      return ending_ || cuts != cuts_ || hasEnded(store_.find(key)) ||
             logs_[key.name_space + "/" + key.name].size() > sent;
    });
  }
  return false;
}

}  // namespace dure::kube
