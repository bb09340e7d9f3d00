#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/result.h"

namespace dure::collective {

// Whom a process of this host wants to meet, and as what.
struct Invitation {
  std::string key;         // the same for all that meet, and for nobody else
  int member = 0;          // from 0; member 0 is waited at
  std::vector<int> names;  // per member: its rank, as people know it
  std::size_t slot_bytes = 0;
  Duration timeout{300'000};
};

struct Meeting {
  struct Other {
    int member;
    Fd socket;  // hangs up when the member ends
  };
  Fd memory;
  // For member 0 all others, for the others member 0.
  std::vector<Other> others;
};

// Member 0: makes the memory, waits under a name of the network namespace for the others and gives
// it to them. The others: come there and are given it. Only processes of the same user are met.
//
// Unavailable if somebody does not come in time or is gone; Invalid if the members do not agree
// about the group; Denied if another user waits under the name.
Result<Meeting> meet(const Invitation& invitation);

// The name: an address of an abstract socket, of which nothing is left in any file system.
std::string meetingName(const std::string& key, uid_t user);

}  // namespace dure::collective
