#include "collective/rendezvous.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include <fmt/core.h>

#include "base/text.h"
#include "collective/greeting.h"
#include "collective/shared_memory.h"

namespace dure::collective {
namespace {

using Deadline = std::chrono::steady_clock::time_point;

constexpr std::chrono::milliseconds kRetry{2};

int remaining(Deadline deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
      deadline - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 60'000));
}

bool passed(Deadline deadline) { return std::chrono::steady_clock::now() >= deadline; }

std::uint64_t fingerprint(std::string_view text, std::uint64_t seed) {
  std::uint64_t hash = 0xcbf29ce484222325 ^ seed;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

socklen_t fillAddress(sockaddr_un& address, const std::string& name) {
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, name.data(), name.size());
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
}

bool isSameUser(int socket, uid_t& user) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return false;
  user = peer.uid;
  return peer.uid == geteuid();
}

// Whether there is something to read, or nobody at the other end.
bool readable(int socket, Deadline deadline) {
  pollfd polled{.fd = socket, .events = POLLIN};
  while (true) {
    const int ready = poll(&polled, 1, remaining(deadline));
    if (ready > 0) return true;
    if (ready == 0 && passed(deadline)) return false;
    if (ready < 0 && errno != EINTR) return false;
  }
}

Result<Fd> listenAt(const std::string& name, int members, Deadline deadline) {
  Fd listener(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener) return systemError("socket");
  sockaddr_un address{};
  const socklen_t size = fillAddress(address, name);
  // The name is free again as soon as the one before has come to its end.
  while (bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size) != 0) {
    if (errno != EADDRINUSE) return systemError("bind");
    if (passed(deadline)) {
      return Error(Code::kUnavailable, "another process waits for the same group already");
    }
    std::this_thread::sleep_for(kRetry);
  }
  if (listen(listener.get(), members + 16) != 0) return systemError("listen");
  return listener;
}

// Member 0's side: the members that have come so far.
class Admission {
 public:
  Admission(const RendezvousOptions& options, const Fd& memory,
            std::vector<Rendezvous::Other>& others)
      : options_(options), memory_(memory), others_(others) {}

  bool isComplete() const { return others_.size() + 1 == options_.ranks.size(); }

  // Admits a member. It ignores other users; a member of this group that does not fit is an error
  // of the whole group.
  Status admit(Fd socket, Deadline deadline) {
    uid_t user = 0;
    if (!isSameUser(socket.get(), user)) return {};
    JoinRequest request;
    if (!readable(socket.get(), deadline)) return {};
    const ssize_t got = recv(socket.get(), &request, sizeof request, MSG_DONTWAIT);
    if (got <= 0) return {};
    const std::string wrong = problemOf(request, static_cast<std::size_t>(got));
    sendAnswer(socket.get(), wrong, memory_.get());
    if (!wrong.empty()) return Error(Code::kInvalid, wrong);
    others_.push_back({request.member, std::move(socket)});
    return {};
  }

  // Unavailable if a member that has come has ended.
  Status wait(int listener, Deadline deadline) {
    std::vector<pollfd> polled{{.fd = listener, .events = POLLIN}};
    for (const auto& other : others_)
      polled.push_back({.fd = other.socket.get(), .events = POLLIN});
    if (poll(polled.data(), polled.size(), remaining(deadline)) < 0 && errno != EINTR) {
      return systemError("poll");
    }
    for (std::size_t i = 1; i < polled.size(); ++i) {
      if (polled[i].revents != 0) {
        return Error(Code::kUnavailable,
                     fmt::format("rank {} is gone", rankOf(others_[i - 1].member)));
      }
    }
    if (passed(deadline)) return Error(Code::kUnavailable, missing());
    return {};
  }

 private:
  int rankOf(int member) const { return options_.ranks[static_cast<std::size_t>(member)]; }

  bool hasCome(int member) const {
    return member == 0 || std::any_of(others_.begin(), others_.end(),
                                      [&](const auto& other) { return other.member == member; });
  }

  std::string problemOf(const JoinRequest& request, std::size_t got) const {
    if (got != sizeof request || request.magic != kGreeting || request.layout != kLayout ||
        request.slot_bytes != options_.slot_bytes) {
      return "a member of this host is of another version";
    }
    const auto members = static_cast<std::int32_t>(options_.ranks.size());
    if (request.members != members) {
      return fmt::format("one member says that this host has {} of them, another {}", members,
                         request.members);
    }
    if (request.member < 0 || request.member >= members || hasCome(request.member)) {
      return fmt::format("member {} of this host joined twice", request.member);
    }
    return "";
  }

  std::string missing() const {
    std::vector<std::string> ranks;
    for (int member = 0; member < static_cast<int>(options_.ranks.size()); ++member) {
      if (!hasCome(member)) ranks.push_back(std::to_string(rankOf(member)));
    }
    return fmt::format("timed out after {} waiting for rank {}", describeDuration(options_.timeout),
                       join(ranks, ", "));
  }

  const RendezvousOptions& options_;
  const Fd& memory_;
  std::vector<Rendezvous::Other>& others_;
};

Result<Rendezvous> hostRendezvous(const RendezvousOptions& options, Deadline deadline) {
  Rendezvous rendezvous;
  auto memory = SharedMemory::create(static_cast<int>(options.ranks.size()), options.slot_bytes);
  if (!memory) return std::move(memory).error();
  rendezvous.memory = std::move(*memory);
  const std::string name = rendezvousName(options.key, geteuid());
  auto listener = listenAt(name, static_cast<int>(options.ranks.size()), deadline);
  if (!listener) return std::move(listener).error();
  Admission admission(options, rendezvous.memory, rendezvous.others);
  while (!admission.isComplete()) {
    if (auto status = admission.wait(listener->get(), deadline); !status) {
      return std::move(status).error();
    }
    Fd socket(accept4(listener->get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket) continue;
    if (auto status = admission.admit(std::move(socket), deadline); !status) {
      return std::move(status).error();
    }
  }
  return rendezvous;
}

// Nothing if nobody waits there yet.
Result<Fd> connectTo(const std::string& name) {
  Fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return systemError("socket");
  sockaddr_un address{};
  const socklen_t size = fillAddress(address, name);
  if (connect(socket.get(), reinterpret_cast<sockaddr*>(&address), size) == 0) return socket;
  if (errno == ECONNREFUSED || errno == EAGAIN || errno == EINTR || errno == ENOENT) return Fd();
  return systemError("connect");
}

Result<Rendezvous> comeToHost(const RendezvousOptions& options, Deadline deadline) {
  const std::string name = rendezvousName(options.key, geteuid());
  const std::string doing = fmt::format("join rank {} of this host", options.ranks[0]);
  Fd socket;
  while (true) {
    auto connected = connectTo(name);
    if (!connected) return std::move(connected).error().during(doing);
    socket = std::move(*connected);
    if (socket) break;
    if (passed(deadline)) {
      return Error(Code::kUnavailable,
                   fmt::format("timed out after {} waiting for rank {}",
                               describeDuration(options.timeout), options.ranks[0]));
    }
    std::this_thread::sleep_for(kRetry);
  }
  uid_t user = 0;
  if (!isSameUser(socket.get(), user)) {
    return Error(Code::kDenied, fmt::format("user {} listens at its address", user)).during(doing);
  }
  const JoinRequest request{.member = options.member,
                            .members = static_cast<std::int32_t>(options.ranks.size()),
                            .slot_bytes = options.slot_bytes};
  if (send(socket.get(), &request, sizeof request, MSG_NOSIGNAL) < 0) {
    return Error(Code::kUnavailable, "it is gone").during(doing);
  }
  if (!readable(socket.get(), deadline)) {
    return Error(Code::kUnavailable, "it does not answer").during(doing);
  }
  auto memory = receiveAnswer(socket.get());
  if (!memory) return std::move(memory).error().during(doing);
  Rendezvous rendezvous;
  rendezvous.memory = std::move(*memory);
  rendezvous.others.push_back({0, std::move(socket)});
  return rendezvous;
}

}  // namespace

std::string rendezvousName(const std::string& key, uid_t user) {
  // A key may be longer than a name may be; so the name has a fingerprint of the key.
  return std::string(1, '\0') +
         fmt::format("dure/{}/{:016x}{:016x}", user, fingerprint(key, 0), fingerprint(key, ~0ULL));
}

Result<Rendezvous> joinRendezvous(const RendezvousOptions& options) {
  const Deadline deadline = std::chrono::steady_clock::now() + options.timeout;
  return options.member == 0 ? hostRendezvous(options, deadline) : comeToHost(options, deadline);
}

}  // namespace dure::collective
