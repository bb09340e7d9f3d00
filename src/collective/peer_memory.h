#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "collective/adopted_memory.h"

namespace dure::collective {

// What the members of a host have adopted, this one too, as far as this process has mapped it.
// Mappings stay for the next time, until their memory is given up by its member.
class PeerMemory {
 public:
  explicit PeerMemory(int members);
  ~PeerMemory();
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;

  bool has(int member, const AdoptedPlace& place) const;
  // Maps what `process`, which is that member, has adopted there.
  Status map(int member, const AdoptedPlace& place, int process, const AdoptedFile& file);
  // Where the adopted memory of that place begins in this process. It is mapped.
  std::byte* at(int member, const AdoptedPlace& place) const;

 private:
  struct Mapping {
    std::byte* begin;
    std::uint64_t bytes;
  };
  struct Member {
    Fd file;
    std::unordered_map<std::uint64_t, Mapping> mappings;  // by their place in the file
  };

  static void unmap(const Mapping& mapping);
  void forgetUnused(Member& member);

  const pid_t pid_;
  std::vector<Member> members_;
};

}  // namespace dure::collective
