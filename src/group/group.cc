#include "group/group.h"

#include <netdb.h>
#include <sys/socket.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <algorithm>
#include <exception>
#include <thread>
#include <utility>

#include <fmt/core.h>

#include "base/fd.h"
#include "base/text.h"
#include "group/join.h"
#include "group/store_options.h"

namespace dure::group {
namespace {

using Deadline = std::chrono::steady_clock::time_point;

constexpr std::chrono::milliseconds kRetry{5};
// What listens there may belong to another attempt that is about to end.
constexpr std::chrono::milliseconds kRetryStranger{100};
// Torch counts whole seconds here.
constexpr std::chrono::milliseconds kAnswer{2000};
constexpr const char* kKeyName = "dure/key";

bool passed(Deadline deadline) { return std::chrono::steady_clock::now() >= deadline; }

// Whether someone accepts connections there.
bool isListening(const GroupOptions& options) {
  const addrinfo hints{.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
  addrinfo* found = nullptr;
  if (getaddrinfo(options.address.c_str(), std::to_string(options.port).c_str(), &hints, &found) !=
      0) {
    return false;
  }
  bool listening = false;
  for (const addrinfo* one = found; one && !listening; one = one->ai_next) {
    const Fd fd(socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    listening = fd && connect(fd.get(), one->ai_addr, one->ai_addrlen) == 0;
  }
  freeaddrinfo(found);
  return listening;
}

c10::intrusive_ptr<c10d::TCPStore> openStore(const GroupOptions& options) {
  auto store = storeOptions(options.port, options.rank);
  store.timeout = kAnswer;
  return c10::make_intrusive<c10d::TCPStore>(options.address, store);
}

Result<c10::intrusive_ptr<c10d::TCPStore>> hostStore(const GroupOptions& options) {
  try {
    auto store = openStore(options);
    store->setTimeout(options.timeout);
    store->set(kKeyName, storeBytes(options.key));
    return store;
  } catch (const std::exception& exception) {
    const std::string text = exception.what();
    return Error(Code::kUnavailable, fmt::format("wait for the others at port {}: {}", options.port,
                                                 text.substr(0, text.find('\n'))));
  }
}

// Torch's own client sleeps a second when nobody waits there yet: so it is only called when someone
// does.
Result<c10::intrusive_ptr<c10d::TCPStore>> findStore(const GroupOptions& options,
                                                     Deadline deadline) {
  while (true) {
    if (isListening(options)) {
      try {
        auto store = openStore(options);
        if (store->get(kKeyName) == storeBytes(options.key)) {
          store->setTimeout(options.timeout);
          return store;
        }
      } catch (const std::exception&) {
        // It has just ended, or is no store: another will come, or the time will be over.
      }
      std::this_thread::sleep_for(kRetryStranger);
    }
    if (passed(deadline)) {
      return Error(Code::kUnavailable,
                   fmt::format("timed out after {} waiting for rank 0 at {}:{}",
                               describeDuration(options.timeout), options.address, options.port));
    }
    std::this_thread::sleep_for(kRetry);
  }
}

}  // namespace

Result<std::unique_ptr<Group>> joinGroup(const GroupOptions& options) {
  const Deadline deadline = std::chrono::steady_clock::now() + options.timeout;
  StoreJoin join{.rank = options.rank,
                 .size = options.size,
                 .address = options.address,
                 .compression = options.compression,
                 .timeout = options.timeout,
                 .wait = options.wait};
  if (options.size > 1) {
    auto store = options.rank == 0 ? hostStore(options) : findStore(options, deadline);
    if (!store) return std::move(store).error().during("join the group");
    join.store = c10::make_intrusive<c10d::PrefixStore>("dure/" + options.key, *store);
  }
  auto group = joinThroughStore(join);
  if (!group) return std::move(group).error().during("join the group");
  return std::unique_ptr<Group>(std::move(*group));
}

}  // namespace dure::group
