#pragma once

#include <cstdint>
#include <string>

#include "base/fd.h"
#include "base/result.h"
#include "collective/shared_memory.h"

namespace dure::collective {

inline constexpr std::uint32_t kGreeting = 0x65727564;  // "dure"

// What a member says when it comes to member 0. Both ends are processes of one machine.
struct JoinRequest {
  std::uint32_t magic = kGreeting;
  std::uint32_t layout = kLayout;
  std::int32_t member = 0;
  std::int32_t members = 0;
  std::uint64_t slot_bytes = 0;
};

// The answer: the memory, or the reason why it is refused if that is not empty. Whoever is gone
// meanwhile is noticed later.
void sendAnswer(int socket, const std::string& refused, int memory);
// Invalid, with the reason, if it was refused; Unavailable if nobody answers any more.
Result<Fd> receiveAnswer(int socket);

}  // namespace dure::collective
