#pragma once

#include <condition_variable>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "kube/client.h"
#include "kube/test_request.h"
#include "kube/test_server.h"
#include "kube/test_store.h"

namespace dure::kube {

// A Kubernetes API server in memory, on a port of loopback, for a real KubeClient to talk to.
// Nothing happens in its cluster by itself but garbage collection: what schedulers, controllers and
// kubelets do, the test does (see test_kubelet.h). It has the namespaces "default" and "team".
// Thread-safe.
class FakeApi {
 public:
  FakeApi();
  ~FakeApi();

  KubeAccess access(const std::string& name_space = "team") const;

  // ---- trouble, for the next `times` requests that match

  // They are answered so, and not carried out. 429 asks to come again at once.
  void answer(const RequestMatch& match, int status, int times = 1);
  // They are carried out, but the connection breaks before the answer.
  void loseReply(const RequestMatch& match, int times = 1);
  // The connection breaks, and they are not carried out.
  void hangUp(const RequestMatch& match, int times = 1);
  // The next one waits, and is carried out when the test lets it go.
  void hold(const RequestMatch& match);
  int held() const;
  void letGo();
  void endTrouble();  // that has not come yet
  // From now on until it is permitted: also what an access review says.
  void forbid(const RequestMatch& match);
  void permitAll();

  // ---- what happens to connections and to the server's memory

  void cutStreams();      // watches and logs that are open
  void forgetVersions();  // every watch gets 410 and has to list again
  void setPage(std::size_t objects);

  // ---- the cluster, seen and changed by others than the client

  // Null if it is not there.
  nlohmann::json get(const KubeAddress& address) const;
  bool has(const KubeAddress& address) const { return !get(address).is_null(); }
  // Of a namespace, or of all.
  std::vector<nlohmann::json> all(const KubeKind& kind, const std::string& name_space = "") const;
  std::vector<std::string> names(const KubeKind& kind, const std::string& name_space = "") const;
  // Makes it, or replaces it; what was made.
  nlohmann::json put(const KubeAddress& address, const nlohmann::json& object);
  // Nothing if it is not there.
  void change(const KubeAddress& address, const std::function<void(nlohmann::json&)>& how);
  // As somebody else deletes it, with what it owns.
  void remove(const KubeAddress& address);
  // At once, whatever runs of it.
  void erase(const KubeAddress& address);
  void appendLog(const std::string& name_space, const std::string& pod, const std::string& text);

  // What a command in a pod prints, and how it ends; without a code the connection breaks instead.
  struct Command {
    std::string out;
    std::string err;
    std::optional<int> code = 0;
  };
  // From now on, in whatever pod that is there.
  void setCommand(Command command);

  // ---- what was asked

  int count(const RequestMatch& match) const;
  int watches() const;  // that are open
  // Waits until it is so; false if it is not within `patience`.
  bool eventually(const std::function<bool()>& so, Duration patience = Duration{20'000}) const;

 private:
  enum class Trouble { kAnswer, kLoseReply, kHangUp, kHold };
  struct Fault {
    RequestMatch match;
    Trouble trouble = Trouble::kAnswer;
    int status = 0;
    int left = 1;
  };
  using Send = TestServer::Send;

  void add(const RequestMatch& match, Trouble trouble, int status, int times);
  bool handle(const TestServer::Asked& asked, const Send& send);
  std::optional<Fault> takeFault(const ApiRequest& request);
  bool reply(const ApiReply& reply, const Send& send) const;
  ApiReply review(const ApiRequest& request) const;
  bool isForbidden(const ApiRequest& request) const;
  bool watch(const ApiRequest& request, const Send& send);
  bool streamLog(const ApiRequest& request, const Send& send);
  bool runCommand(const ApiRequest& request, const std::string& headers, const Send& send);

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  // All guarded by mutex_.
  FakeStore store_;
  std::list<Fault> faults_;
  std::vector<RequestMatch> forbidden_;
  std::vector<ApiRequest> asked_;
  std::map<std::string, std::string> logs_;  // by namespace and pod
  Command command_;
  int held_ = 0;
  int let_go_ = 0;
  int cuts_ = 0;
  int watches_ = 0;
  bool ending_ = false;
  TestServer server_;  // its threads use all of the above
};

}  // namespace dure::kube
