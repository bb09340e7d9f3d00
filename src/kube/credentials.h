#pragma once

#include <chrono>
#include <mutex>
#include <string>

#include "base/clock.h"
#include "kube/access.h"

namespace dure::kube {

// Whom a request says it comes from.
struct Credential {
  std::string token;
  std::string certificate;  // PEM, with its key
  std::string key;
  bool operator==(const Credential&) const = default;
};

// The credential of the moment: from the configuration, from a file that is replaced from time to
// time, or from a plugin, which is asked again when what it said runs out. Thread-safe.
class Credentials {
 public:
  explicit Credentials(const KubeAccess& access) : access_(access) {}

  Result<Credential> current();
  // The server refused it: the next call of current() looks again. Whether that can help.
  bool renew();

 private:
  Status askPlugin();

  const KubeAccess access_;
  std::mutex mutex_;
  Credential known_;       // guarded by mutex_
  bool is_known_ = false;  // guarded by mutex_
  TimePoint good_until_;   // guarded by mutex_
};

}  // namespace dure::kube
