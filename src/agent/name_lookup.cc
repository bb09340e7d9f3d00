#include "agent/name_lookup.h"

#include <arpa/inet.h>
#include <arpa/nameser.h>
#include <netdb.h>
#include <netinet/in.h>
#include <resolv.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <mutex>

namespace dure::agent {
namespace {

using std::chrono::steady_clock;

constexpr auto kPause = std::chrono::milliseconds(200);

class Resolver {
 public:
  explicit Resolver(const std::optional<NameServer>& server) {
    usable_ = res_ninit(&state_) == 0;
    // Who does not answer at once is asked again soon enough.
    state_.retrans = 1;
    state_.retry = 1;
    if (!server) {
      for (const char* domain : state_.dnsrch) {
        if (domain == nullptr) break;
        search_.emplace_back(domain);
      }
      return;
    }
    search_ = server->search;
    state_.nscount = 1;
    state_.nsaddr_list[0] = {};
    state_.nsaddr_list[0].sin_family = AF_INET;
    state_.nsaddr_list[0].sin_port = htons(static_cast<std::uint16_t>(server->port));
    inet_pton(AF_INET, server->address.c_str(), &state_.nsaddr_list[0].sin_addr);
  }
  ~Resolver() {
    if (usable_) res_nclose(&state_);
  }
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;

  bool knows(const std::string& name, const std::stop_token& stop) {
    return std::any_of(search_.begin(), search_.end(),
                       [&](const std::string& domain) {
                         return !stop.stop_requested() && hasAddress(name + "." + domain);
                       }) ||
           (!stop.stop_requested() && hasAddress(name));
  }

 private:
  bool hasAddress(const std::string& name) {
    return usable_ && (hasRecord(name, ns_t_a) || hasRecord(name, ns_t_aaaa));
  }

  bool hasRecord(const std::string& name, int type) {
    std::array<unsigned char, NS_MAXMSG> answer;
    // Names without such records are failures, too.
    return res_nquery(&state_, name.c_str(), ns_c_in, type, answer.data(),
                      static_cast<int>(answer.size())) > 0;
  }

  struct __res_state state_ {};
  bool usable_ = false;
  std::vector<std::string> search_;
};

}  // namespace

std::vector<std::string> awaitNames(const std::vector<std::string>& names,
                                    std::chrono::milliseconds patience, const std::stop_token& stop,
                                    const std::optional<NameServer>& server) {
  const auto deadline = steady_clock::now() + patience;
  Resolver resolver(server);
  std::mutex mutex;
  std::condition_variable_any never;
  // One after the other: while the first is waited for, nobody is asked for the others.
  std::vector<std::string> unknown = names;
  while (true) {
    while (!unknown.empty() && resolver.knows(unknown.front(), stop)) {
      unknown.erase(unknown.begin());
    }
    if (unknown.empty() || stop.stop_requested() || steady_clock::now() >= deadline) break;
    std::unique_lock lock(mutex);
    never.wait_for(lock, stop, kPause, [] { return false; });
  }
  // Of those that were not asked for, some may be known.
  std::erase_if(unknown, [&](const std::string& name) { return resolver.knows(name, stop); });
  return unknown;
}

}  // namespace dure::agent
