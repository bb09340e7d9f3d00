#include "backend/kubernetes/placement_lock.h"

#include <utility>

#include "backend/kubernetes/names.h"
#include "base/log.h"
#include "base/wait.h"

namespace dure::kubernetes {
namespace {

using nlohmann::json;

constexpr const char* kName = kPlacementLease;
constexpr const char* kLockPart = "placement";

}  // namespace

PlacementLock::PlacementLock(kube::KubeClient& client, std::string name_space, std::string holder,
                             LockTimes times)
    : client_(client),
      address_{kube::kinds::kLeases, std::move(name_space), kName, ""},
      holder_(std::move(holder)),
      times_(times) {}

PlacementLock::~PlacementLock() { release(); }

Status PlacementLock::acquire(const std::stop_token& stop,
                              const std::function<void(const std::string& holder)>& waits) {
  const json lease = {{"apiVersion", "coordination.k8s.io/v1"},
                      {"kind", "Lease"},
                      {"metadata", {{"name", kName}, {"namespace", address_.name_space}}},
                      {"spec", {{"holderIdentity", holder_}}}};
  std::string seen;  // whose lease this is
  bool told = false;
  auto since = std::chrono::steady_clock::now();
  while (!stop.stop_requested()) {
    auto made = client_.create(address_, lease);
    if (made) {
      uid_ = made->at("metadata").at("uid");
      logInfo(kLockPart, "{} has taken the placement lock", holder_);
      return {};
    }
    if (made.error().code() != Code::kExists) return std::move(made).error();
    auto other = client_.get(address_);
    const std::string uid =
        other ? other->value("metadata", json::object()).value("uid", "") : std::string();
    const std::string holder =
        other ? other->value("spec", json::object()).value("holderIdentity", "") : std::string();
    if (other && holder == holder_) {
      // Our own, of a reply that got lost or of a life before this one.
      uid_ = uid;
      logInfo(kLockPart, "{} has the placement lock already", holder_);
      return {};
    }
    const auto now = std::chrono::steady_clock::now();
    if (uid != seen) {
      seen = uid;
      since = now;
      told = false;
    } else if (!uid.empty() && !told && now - since > times_.usual) {
      told = true;
      logInfo(kLockPart, "{} waits for the placement lock of {}", holder_, holder);
      waits(holder);
    } else if (!uid.empty() && now - since > times_.longest) {
      logInfo(kLockPart, "{} breaks the placement lock of {}, held for too long", holder_, holder);
      static_cast<void>(client_.remove(address_, {.uid = uid}));
    }
    sleepFor(times_.look, stop);
  }
  return Error(Code::kUnavailable, "stopped");
}

void PlacementLock::release() {
  if (uid_.empty()) return;
  logInfo(kLockPart, "{} releases the placement lock", holder_);
  static_cast<void>(client_.remove(address_, {.uid = std::exchange(uid_, "")}));
}

}  // namespace dure::kubernetes
