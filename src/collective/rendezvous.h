#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/result.h"

namespace dure::collective {

// What the members of a host agree on before their rendezvous.
struct RendezvousOptions {
  std::string key;         // the same for all members, and for nobody else
  int member = 0;          // from 0; member 0 hosts the rendezvous
  std::vector<int> ranks;  // one for each member: its rank, for messages
  std::size_t slot_bytes = 0;
  Duration timeout{300'000};
};

struct Rendezvous {
  struct Other {
    int member;
    Fd socket;  // hangs up when the member ends
  };
  Fd memory;
  // For member 0 all others, for the others member 0.
  std::vector<Other> others;
};

// Member 0 creates the shared memory and passes its descriptor to the others over an abstract Unix
// socket. Each end checks that its peer is the same user.
//
// Unavailable if a member ends or does not come in time; Invalid if the members do not agree about
// the group; Denied if another user listens at the socket.
Result<Rendezvous> joinRendezvous(const RendezvousOptions& options);

// The address of the abstract socket. Nothing of it lies in a file system.
std::string rendezvousName(const std::string& key, uid_t user);

}  // namespace dure::collective
