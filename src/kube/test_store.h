#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "kube/test_request.h"

namespace dure::kube {

struct ApiReply {
  int status = 200;
  nlohmann::json body;
};
// A Status, as an API server explains that it does not do something. Without words of its own it
// has those that belong to the number.
ApiReply refusal(int status, const std::string& message = "", std::string reason = "");

// Of one object. What is in no namespace has none.
struct ObjectKey {
  std::string api, plural, name_space, name;
  auto operator<=>(const ObjectKey&) const = default;
};
ObjectKey keyOf(const ApiRequest& request);
ObjectKey keyOf(const KubeAddress& address);

// The objects of a fake cluster, and what has happened to them. Versions, conflicts, immutability,
// graceful deletion and garbage collection are as an API server and its controllers have them; the
// garbage collector does its work at once. One thread at a time.
class FakeStore {
 public:
  FakeStore();

  // Everything but watches and logs.
  ApiReply answer(const ApiRequest& request);
  // What a watch has to tell after `version`, in order; nothing if that is forgotten.
  std::optional<std::vector<nlohmann::json>> eventsSince(std::int64_t version,
                                                         const ApiRequest& request) const;
  std::int64_t version() const { return version_; }
  const nlohmann::json* find(const ObjectKey& key) const;
  std::vector<nlohmann::json> select(const ApiRequest& request) const;

  // What controllers and kubelets do: whatever they like, at once. Erasing knows no grace.
  void write(const ObjectKey& key, nlohmann::json object);
  void erase(const ObjectKey& key);

  // No watch can begin at a version that was told until now, nor a list go on.
  void forget();
  // Lists come in pages of no more than this.
  void setPage(std::size_t objects) { page_ = objects; }

 private:
  struct Change {
    std::int64_t version = 0;
    ObjectKey key;
    nlohmann::json before;  // null: it was not there
    nlohmann::json after;   // null: it is not there any more
  };
  struct Rest {
    std::vector<nlohmann::json> objects;
    std::int64_t version = 0;
  };

  ApiReply create(const ApiRequest& request);
  ApiReply list(const ApiRequest& request);
  ApiReply change(const ApiRequest& request);
  ApiReply remove(const ObjectKey& key, const nlohmann::json& options);
  void removeGracefully(const ObjectKey& key, const nlohmann::json& options);
  void orphan(const std::string& uid);
  // Deletes what has had owners and has none any more.
  void collectGarbage();
  bool isThere(const std::string& uid) const;
  bool isOwner(const std::string& uid) const;
  void settle(const ObjectKey& key);

  std::map<ObjectKey, nlohmann::json> objects_;
  std::vector<Change> history_;
  const TimePoint began_ = SystemClock().now();
  std::int64_t version_ = 0;
  std::int64_t oldest_ = 0;  // that is remembered
  std::int64_t names_ = 0;   // that were made up
  std::size_t page_ = 500;
  std::map<std::string, Rest> rests_;  // of lists, by the token that continues them
};

}  // namespace dure::kube
