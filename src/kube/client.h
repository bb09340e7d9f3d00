#pragma once

#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "kube/access.h"
#include "kube/http.h"
#include "kube/websocket.h"

namespace dure::kube {

// A kind of objects, as the API server addresses it.
struct KubeKind {
  const char* api;     // "v1", "batch/v1"
  const char* plural;  // "pods"
  bool namespaced = true;
};

namespace kinds {
inline constexpr KubeKind kPods{"v1", "pods"};
inline constexpr KubeKind kServices{"v1", "services"};
inline constexpr KubeKind kSecrets{"v1", "secrets"};
inline constexpr KubeKind kConfigMaps{"v1", "configmaps"};
inline constexpr KubeKind kServiceAccounts{"v1", "serviceaccounts"};
inline constexpr KubeKind kClaims{"v1", "persistentvolumeclaims"};
inline constexpr KubeKind kEvents{"v1", "events"};
inline constexpr KubeKind kNodes{"v1", "nodes", false};
inline constexpr KubeKind kNamespaces{"v1", "namespaces", false};
inline constexpr KubeKind kJobs{"batch/v1", "jobs"};
inline constexpr KubeKind kDeployments{"apps/v1", "deployments"};
inline constexpr KubeKind kRoles{"rbac.authorization.k8s.io/v1", "roles"};
inline constexpr KubeKind kRoleBindings{"rbac.authorization.k8s.io/v1", "rolebindings"};
inline constexpr KubeKind kClusterRoles{"rbac.authorization.k8s.io/v1", "clusterroles", false};
inline constexpr KubeKind kClusterRoleBindings{"rbac.authorization.k8s.io/v1",
                                               "clusterrolebindings", false};
inline constexpr KubeKind kStorageClasses{"storage.k8s.io/v1", "storageclasses", false};
inline constexpr KubeKind kLeases{"coordination.k8s.io/v1", "leases"};
}  // namespace kinds

// One object, or with an empty name all of a namespace; with an empty namespace, of all of them.
struct KubeAddress {
  KubeKind kind;
  std::string name_space;
  std::string name;
  std::string part;  // "status", "log", "exec"; empty: the object itself

  std::string path() const;  // "/api/v1/namespaces/a/pods/b/log"
};

struct KubeSelector {
  std::string labels;  // "app=a,role in (worker)"
  std::string fields;  // "spec.nodeName=node-1"
};

enum class PatchType { kMerge, kStrategic, kJson };

struct DeleteOptions {
  std::string propagation = "Background";  // or Foreground, Orphan
  std::optional<int> grace_seconds;
  std::string uid;  // only if it is still this one
};

struct LogOptions {
  std::string container;
  bool follow = false;
  bool previous = false;  // of the container before the last restart
  std::optional<int> tail;
  std::optional<int> since_seconds;
};

enum class WatchEvent { kAdded, kModified, kDeleted };

// The API server of one cluster, as one user. Calls block until there is an answer or `patience`
// has passed; what may be sent twice is tried again meanwhile. Thread-safe.
//
// Errors: NotFound; Exists; Conflict, if the object has changed since it was read; Denied, naming
// verb, kind and user; Invalid for an object that the server refuses; Unavailable.
class KubeClient {
 public:
  explicit KubeClient(KubeAccess access, Duration patience = Duration{30'000});

  const KubeAccess& access() const { return access_; }
  Duration patience() const { return patience_; }

  Result<nlohmann::json> get(const KubeAddress& address);
  Result<nlohmann::json> create(const KubeAddress& address, const nlohmann::json& object,
                                bool dry_run = false);
  // Conflict if `object` is not of the newest version.
  Result<nlohmann::json> replace(const KubeAddress& address, const nlohmann::json& object);
  Result<nlohmann::json> patch(const KubeAddress& address, const nlohmann::json& patch,
                               PatchType type = PatchType::kMerge);
  // Server-side apply: what `object` says becomes so, and what it said before and no longer does is
  // taken back.
  Result<nlohmann::json> apply(const KubeAddress& address, const nlohmann::json& object,
                               const std::string& manager, bool force = true);
  // Success also if it is not there.
  Status remove(const KubeAddress& address, const DeleteOptions& options = {});
  // All that the selector fits.
  Status removeAll(const KubeAddress& address, const KubeSelector& selector,
                   const DeleteOptions& options = {});

  // Calls `take` with each object, page after page; all are of one moment, whose version it gives.
  Result<std::string> list(const KubeAddress& address, const KubeSelector& selector,
                           const std::function<void(nlohmann::json&&)>& take);
  Result<std::vector<nlohmann::json>> listAll(const KubeAddress& address,
                                              const KubeSelector& selector = {});

  // What changes from `version` on, until the server ends it (success), or `stop`. `version` goes
  // along. NotFound if the server does not remember that version any more: list again.
  Status watchFrom(std::string& version, const KubeAddress& address, const KubeSelector& selector,
                   const std::function<void(WatchEvent, nlohmann::json&&)>& take,
                   const std::stop_token& stop);

  // Gives the output as it comes. Ends with the container if it follows.
  Status logs(const std::string& name_space, const std::string& pod, const LogOptions& options,
              const std::function<bool(std::string_view)>& take, const std::stop_token& stop = {});

  // A conversation about a part of an object: exec, attach. `path` is with its query.
  Result<WebSocket> upgrade(const std::string& path, const std::string& protocol);

  // Whether this user may.
  Result<bool> isAllowed(const std::string& verb, const KubeAddress& address);

 private:
  struct Call;
  std::vector<std::string> headersFor(const Credential& credential) const;
  Result<HttpResponse> send(const Call& call, const std::stop_token& stop = {});
  Result<nlohmann::json> sendForObject(const Call& call);

  const KubeAccess access_;
  const Duration patience_;
  Credentials credentials_;
  HttpClient http_;
};

// As a part of a URL.
std::string escapedForUrl(const std::string& text);

// Keeps an eye on all objects that the selector fits, for as long as `stop` lets it: whatever
// happens to connections and servers, in the end it has been told of the last state of each.
struct KubeWatch {
  KubeAddress address;
  KubeSelector selector;
  // Everything there is: at first, and whenever changes may have been missed.
  std::function<void(std::vector<nlohmann::json>&&)> replaced;
  std::function<void(WatchEvent, nlohmann::json&&)> changed;
  // It does not get through, and keeps trying; nothing when it does again.
  std::function<void(const std::optional<Error>&)> trouble;
};
void keepWatching(KubeClient& client, const KubeWatch& watch, const std::stop_token& stop);

}  // namespace dure::kube
