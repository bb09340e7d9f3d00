#pragma once

#include <cstdint>
#include <string>

#include "base/fd.h"
#include "base/result.h"
#include "collective/shared_memory.h"

namespace dure::collective {

inline constexpr std::uint32_t kGreeting = 0x65727564;  // "dure"

// What a member sends to member 0. Both ends are processes of one machine.
struct JoinRequest {
  std::uint32_t magic = kGreeting;
  std::uint32_t layout = kLayout;
  std::int32_t member = 0;
  std::int32_t members = 0;
  std::uint64_t slot_bytes = 0;
};

// The answer: the memory, or the reason of a refusal if that is not empty. If the member has ended
// meanwhile, a later wait notices.
void sendAnswer(int socket, const std::string& refused, int memory);
// Invalid, with the reason, if member 0 refused; Unavailable if it has ended.
Result<Fd> receiveAnswer(int socket);

}  // namespace dure::collective
