#pragma once

#include <chrono>
#include <functional>
#include <stop_token>
#include <string>

#include "kube/client.h"

namespace dure::kubernetes {

struct LockTimes {
  std::chrono::milliseconds look{250};  // from one look at another's lock to the next
  // Who waits for longer than this is told whom for.
  std::chrono::milliseconds usual{3'000};
  // Longer than a gang takes to be placed and created; one that is held for longer has lost its
  // holder.
  std::chrono::milliseconds longest{30'000};
};

// Held by the one manager that is placing a gang: from reading what is free until its pods are
// created, so that two never count on the same place. It is a Lease that exists while it is held,
// in one namespace for the whole cluster.
class PlacementLock {
 public:
  PlacementLock(kube::KubeClient& client, std::string name_space, std::string holder,
                LockTimes times = {});
  ~PlacementLock();
  PlacementLock(const PlacementLock&) = delete;
  PlacementLock& operator=(const PlacementLock&) = delete;

  // Waits until it is ours. One whose holder has died is taken over after a while. `waits` is told
  // who holds it if it is held for longer than that mostly takes.
  Status acquire(const std::stop_token& stop,
                 const std::function<void(const std::string& holder)>& waits);
  void release();

 private:
  kube::KubeClient& client_;
  const kube::KubeAddress address_;
  const std::string holder_;
  const LockTimes times_;
  std::string uid_;  // of the lease that is ours; empty: none
};

}  // namespace dure::kubernetes
