#include "kube/test_store.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/core.h>

#include "base/clock.h"

namespace dure::kube {
namespace {

using nlohmann::json;

constexpr const char* kApply = "application/apply-patch+yaml";
constexpr const char* kForeground = "foregroundDeletion";

// To the second, as the API server writes it.
std::string timestamp(TimePoint time) { return formatTime(time).substr(0, 19) + "Z"; }

const json& at(const json& object, std::initializer_list<const char*> names) {
  static const json kNull;
  const json* here = &object;
  for (const char* name : names) {
    if (!here->is_object()) return kNull;
    const auto found = here->find(name);
    if (found == here->end()) return kNull;
    here = &*found;
  }
  return *here;
}

std::string text(const json& object, std::initializer_list<const char*> names) {
  const json& value = at(object, names);
  return value.is_string() ? value.get<std::string>() : "";
}

std::string uidOf(const json& object) { return text(object, {"metadata", "uid"}); }

bool hasEnded(const json& pod) {
  const std::string phase = text(pod, {"status", "phase"});
  return phase == "Succeeded" || phase == "Failed";
}

// Whether only its kubelet can say when the pod is gone.
bool isOnANode(const ObjectKey& key, const json& object) {
  return key.plural == "pods" && !text(object, {"spec", "nodeName"}).empty() && !hasEnded(object);
}

bool hasOwnStatus(const ObjectKey& key) {
  static const std::set<std::string> kKinds = {"pods", "jobs", "nodes", "services"};
  return kKinds.contains(key.plural);
}

// Why the new state of an object cannot be, or nothing.
std::string complaint(const ObjectKey& key, const json& before, const json& after) {
  if (key.plural != "configmaps" && key.plural != "secrets") return "";
  if (!before.value("immutable", false)) return "";
  for (const char* field : {"data", "binaryData", "immutable"}) {
    if (at(before, {field}) == at(after, {field})) continue;
    return fmt::format(
        "{} \"{}\" is invalid: {}: Forbidden: field is immutable when `immutable` is set",
        key.plural, key.name, field);
  }
  return "";
}

json patched(const ApiRequest& request, const json& object) {
  if (request.content_type == "application/json-patch+json") return object.patch(request.body);
  // Server-side apply and strategic merges are told apart by nobody who sends whole fields.
  json merged = object;
  merged.merge_patch(request.body);
  return merged;
}

// A server-side apply tells the elements of some lists apart by fields that have no default there.
bool hasWholePorts(const json& object) {
  if (object.is_object() && object.contains("ports")) {
    for (const json& port : object["ports"]) {
      if (!port.contains("protocol")) return false;
    }
  }
  if (!object.is_structured()) return true;
  return std::all_of(object.begin(), object.end(), hasWholePorts);
}

ApiReply notFound(const ObjectKey& key) {
  return refusal(404, fmt::format("{} \"{}\" not found", key.plural, key.name));
}

}  // namespace

ApiReply refusal(int status, const std::string& message, std::string reason) {
  static const std::map<int, std::string> kReasons = {
      {403, "Forbidden"}, {404, "NotFound"},        {409, "Conflict"},     {410, "Expired"},
      {422, "Invalid"},   {429, "TooManyRequests"}, {500, "InternalError"}};
  const auto found = kReasons.find(status);
  if (reason.empty() && found != kReasons.end()) reason = found->second;
  return {status,
          {{"kind", "Status"},
           {"apiVersion", "v1"},
           {"status", "Failure"},
           {"code", status},
           {"reason", reason},
           {"message", message.empty() ? fmt::format("the test says {}", status) : message}}};
}

ObjectKey keyOf(const ApiRequest& request) {
  return {request.api, request.plural, request.name_space, request.name};
}

ObjectKey keyOf(const KubeAddress& address) {
  return {address.kind.api, address.kind.plural, address.kind.namespaced ? address.name_space : "",
          address.name};
}

FakeStore::FakeStore() {
  for (const char* name : {"default", "team"}) {
    write(keyOf(KubeAddress{kinds::kNamespaces, "", name, ""}),
          {{"apiVersion", "v1"}, {"kind", "Namespace"}, {"metadata", {{"name", name}}}});
  }
}

const json* FakeStore::find(const ObjectKey& key) const {
  const auto found = objects_.find(key);
  return found == objects_.end() ? nullptr : &found->second;
}

std::vector<json> FakeStore::select(const ApiRequest& request) const {
  std::vector<json> found;
  for (const auto& [key, object] : objects_) {
    if (key.api == request.api && key.plural == request.plural && isSelected(object, request)) {
      found.push_back(object);
    }
  }
  return found;
}

void FakeStore::write(const ObjectKey& key, json object) {
  const json* before = find(key);
  json& metadata = object["metadata"];
  metadata["name"] = key.name;
  if (!key.name_space.empty()) metadata["namespace"] = key.name_space;
  metadata["uid"] = before != nullptr ? uidOf(*before) : fmt::format("uid-{}", version_ + 1);
  // A second for each, so that objects are of one age only if a test wants them to be.
  metadata["creationTimestamp"] = before != nullptr
                                      ? before->at("metadata").at("creationTimestamp")
                                      : json(timestamp(began_ + std::chrono::seconds(version_)));
  if (before != nullptr) {
    metadata["resourceVersion"] = before->at("metadata").at("resourceVersion");
    if (object == *before) return;  // and nobody is told
  }
  metadata["resourceVersion"] = std::to_string(++version_);
  history_.push_back({version_, key, before != nullptr ? *before : json(), object});
  objects_[key] = std::move(object);
}

void FakeStore::erase(const ObjectKey& key) {
  const auto found = objects_.find(key);
  if (found == objects_.end()) return;
  json last = found->second;
  last["metadata"]["resourceVersion"] = std::to_string(++version_);
  history_.push_back({version_, key, std::move(last), nullptr});
  objects_.erase(found);
  collectGarbage();
}

ApiReply FakeStore::answer(const ApiRequest& request) {
  const ObjectKey key = keyOf(request);
  if (request.verb == "create") return create(request);
  if (request.verb == "list") return list(request);
  if (request.verb == "deletecollection") {
    for (const json& object : select(request)) {
      ObjectKey each = key;
      each.name = object["metadata"]["name"];
      remove(each, request.body);
    }
    return {200, {{"kind", "Status"}, {"status", "Success"}}};
  }
  const json* object = find(key);
  const bool applies = request.content_type == kApply;
  if (applies && !hasWholePorts(request.body)) {
    return refusal(400,
                   "failed to create typed patch object: an element of ports omits key field "
                   "\"protocol\"");
  }
  if (object == nullptr) return applies ? create(request) : notFound(key);
  if (request.verb == "get") return {200, *object};
  if (request.verb == "delete") return remove(key, request.body);
  if (request.verb == "patch" || request.verb == "update") return change(request);
  return refusal(405, "what is that?");
}

ApiReply FakeStore::create(const ApiRequest& request) {
  if (!request.body.is_object()) return refusal(400, "the object is no JSON");
  ObjectKey key = keyOf(request);
  json object = request.body;
  if (text(object, {"metadata", "name"}).empty()) {
    if (key.name.empty()) return refusal(422, "metadata.name: Required value");
    key.name += fmt::format("{:05}", ++names_);
  }
  const KubeAddress name_space{kinds::kNamespaces, "", request.name_space, ""};
  if (!request.name_space.empty() && find(keyOf(name_space)) == nullptr) {
    return notFound(keyOf(name_space));
  }
  if (find(key) != nullptr) {
    return refusal(409, fmt::format("{} \"{}\" already exists", key.plural, key.name),
                   "AlreadyExists");
  }
  if (key.plural == "pods") object["status"] = {{"phase", "Pending"}};
  if (request.value("dryRun") == "All") return {201, object};
  write(key, std::move(object));
  const json made = *find(key);
  collectGarbage();
  return {201, made};
}

ApiReply FakeStore::list(const ApiRequest& request) {
  Rest rest{select(request), version_};
  if (const std::string token = request.value("continue"); !token.empty()) {
    const auto found = rests_.find(token);
    if (found == rests_.end()) return refusal(410, "the continue token has expired");
    rest = std::move(found->second);
    rests_.erase(found);
  }
  const std::string limit = request.value("limit");
  const std::size_t size = std::min(page_, limit.empty() ? page_ : std::stoul(limit));
  json metadata = {{"resourceVersion", std::to_string(rest.version)}};
  json items = json::array();
  for (std::size_t i = 0; i < std::min(size, rest.objects.size()); ++i) {
    items.push_back(rest.objects[i]);
  }
  if (rest.objects.size() > size) {
    const std::string token = fmt::format("token-{}", ++names_);
    metadata["continue"] = token;
    rest.objects.erase(rest.objects.begin(),
                       rest.objects.begin() + static_cast<std::ptrdiff_t>(size));
    rests_[token] = std::move(rest);
  }
  return {200, {{"kind", "List"}, {"metadata", metadata}, {"items", items}}};
}

ApiReply FakeStore::change(const ApiRequest& request) {
  const ObjectKey key = keyOf(request);
  const json before = *find(key);
  json after = request.verb == "update" ? request.body : patched(request, before);
  const std::string version = text(after, {"metadata", "resourceVersion"});
  if (!version.empty() && version != text(before, {"metadata", "resourceVersion"})) {
    return refusal(409, fmt::format("Operation cannot be fulfilled on {} \"{}\": the object has "
                                    "been modified",
                                    key.plural, key.name));
  }
  if (request.part == "status") {
    json status = after.value("status", json::object());
    after = before;
    after["status"] = std::move(status);
  } else if (hasOwnStatus(key)) {
    after.erase("status");
    if (before.contains("status")) after["status"] = before["status"];
  }
  if (const std::string why = complaint(key, before, after); !why.empty()) return refusal(422, why);
  write(key, std::move(after));
  const json changed = *find(key);
  settle(key);
  return {200, changed};
}

ApiReply FakeStore::remove(const ObjectKey& key, const json& options) {
  const json* found = find(key);
  if (found == nullptr) return notFound(key);
  const std::string uid = text(options, {"preconditions", "uid"});
  if (!uid.empty() && uid != uidOf(*found)) {
    return refusal(409, fmt::format("Precondition failed: UID in precondition: {}, UID in object "
                                    "meta: {}",
                                    uid, uidOf(*found)));
  }
  const json last = *found;
  if (text(options, {"propagationPolicy"}) == "Orphan") orphan(uidOf(last));
  removeGracefully(key, options);
  return {200, last};
}

void FakeStore::removeGracefully(const ObjectKey& key, const json& options) {
  json object = objects_.at(key);
  json& metadata = object["metadata"];
  if (text(options, {"propagationPolicy"}) == "Foreground") {
    metadata["finalizers"].push_back(kForeground);
  }
  const json& asked = at(options, {"gracePeriodSeconds"});
  const json& own = at(object, {"spec", "terminationGracePeriodSeconds"});
  int grace = asked.is_number() ? asked.get<int>() : own.is_number() ? own.get<int>() : 30;
  const bool finalized = !metadata.value("finalizers", json::array()).empty();
  if (!finalized && (grace == 0 || !isOnANode(key, object))) return erase(key);
  // A second deletion may only shorten the time.
  const json& left = at(metadata, {"deletionGracePeriodSeconds"});
  if (left.is_number()) grace = std::min(grace, left.get<int>());
  if (!metadata.contains("deletionTimestamp"))
    metadata["deletionTimestamp"] = timestamp(SystemClock().now());
  metadata["deletionGracePeriodSeconds"] = grace;
  write(key, std::move(object));
  collectGarbage();
}

void FakeStore::orphan(const std::string& uid) {
  const auto objects = objects_;
  for (const auto& [key, object] : objects) {
    json copy = object;
    json& owners = copy["metadata"]["ownerReferences"];
    for (std::size_t i = owners.size(); i-- > 0;) {
      if (owners[i].value("uid", "") == uid) owners.erase(i);
    }
    if (owners.empty()) copy["metadata"].erase("ownerReferences");
    write(key, std::move(copy));
  }
}

bool FakeStore::isThere(const std::string& uid) const {
  // An owner that waits for what it owns to go first has none of it any more.
  return std::any_of(objects_.begin(), objects_.end(), [&](const auto& object) {
    const json& finalizers = at(object.second, {"metadata", "finalizers"});
    return uidOf(object.second) == uid &&
           std::find(finalizers.begin(), finalizers.end(), kForeground) == finalizers.end();
  });
}

bool FakeStore::isOwner(const std::string& uid) const {
  return std::any_of(objects_.begin(), objects_.end(), [&](const auto& object) {
    const json& owners = at(object.second, {"metadata", "ownerReferences"});
    return std::any_of(owners.begin(), owners.end(),
                       [&](const json& owner) { return text(owner, {"uid"}) == uid; });
  });
}

void FakeStore::collectGarbage() {
  const auto objects = objects_;
  for (const auto& [key, object] : objects) {
    const json* there = find(key);
    if (there == nullptr) continue;
    const json owners = there->at("metadata").value("ownerReferences", json::array());
    const bool lost = std::none_of(owners.begin(), owners.end(), [&](const json& owner) {
      return isThere(text(owner, {"uid"}));
    });
    if (!owners.empty() && lost && !there->at("metadata").contains("deletionTimestamp")) {
      removeGracefully(key, {});
    }
    settle(key);
  }
}

// Lets an object go whose deletion waits for nothing any more.
void FakeStore::settle(const ObjectKey& key) {
  const json* object = find(key);
  if (object == nullptr || !object->at("metadata").contains("deletionTimestamp")) return;
  json finalizers = object->at("metadata").value("finalizers", json::array());
  if (finalizers == json::array({kForeground}) && !isOwner(uidOf(*object))) finalizers.clear();
  if (finalizers.empty() && !isOnANode(key, *object)) erase(key);
}

std::optional<std::vector<json>> FakeStore::eventsSince(std::int64_t version,
                                                        const ApiRequest& request) const {
  if (version < oldest_) return std::nullopt;
  std::vector<json> events;
  for (const Change& change : history_) {
    if (change.version <= version) continue;
    if (change.key.api != request.api || change.key.plural != request.plural) continue;
    const bool was = !change.before.is_null() && isSelected(change.before, request);
    const bool is = !change.after.is_null() && isSelected(change.after, request);
    if (!was && !is) continue;
    json object = is || !change.after.is_null() ? change.after : change.before;
    events.push_back({{"type", !was ? "ADDED"
                               : is ? "MODIFIED"
                                    : "DELETED"},
                      {"object", std::move(object)}});
  }
  return events;
}

void FakeStore::forget() {
  oldest_ = ++version_;
  history_.clear();
  rests_.clear();
}

}  // namespace dure::kube
