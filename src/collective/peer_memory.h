#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "collective/registered_memory.h"

namespace dure::collective {

// The registered memory of a host's members, this one's too, that this process has mapped. Mappings
// stay for the next time, until the member unregisters the memory.
class PeerMemory {
 public:
  explicit PeerMemory(int members);
  ~PeerMemory();
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;

  bool has(int member, const BufferRegion& region) const;
  // Maps that region of the member, whose process is `process`.
  Status map(int member, const BufferRegion& region, int process, const RegisteredFile& file);
  // Where the registered range of that region begins in this process. It is mapped.
  std::byte* at(int member, const BufferRegion& region) const;

 private:
  struct Mapping {
    std::byte* begin;
    std::uint64_t bytes;
  };
  struct Member {
    Fd file;
    std::unordered_map<std::uint64_t, Mapping> mappings;  // by their offset in the file
  };

  static void unmap(const Mapping& mapping);
  void forgetUnused(Member& member);

  const pid_t pid_;
  std::vector<Member> members_;
};

}  // namespace dure::collective
