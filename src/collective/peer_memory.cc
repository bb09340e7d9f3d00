#include "collective/peer_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

namespace dure::collective {

PeerMemory::PeerMemory(int members) : pid_(getpid()), members_(static_cast<std::size_t>(members)) {}

PeerMemory::~PeerMemory() {
  // A child of the process has none of the mappings, and may have others in their place.
  if (getpid() != pid_) return;
  for (const Member& member : members_) {
    for (const auto& [place, mapping] : member.mappings) unmap(mapping);
  }
}

void PeerMemory::unmap(const Mapping& mapping) { munmap(mapping.begin, mapping.bytes); }

bool PeerMemory::has(int member, const AdoptedPlace& place) const {
  return members_[static_cast<std::size_t>(member)].mappings.contains(place.begin);
}

Status PeerMemory::map(int member, const AdoptedPlace& place, int process,
                       const AdoptedFile& file) {
  Member& peer = members_[static_cast<std::size_t>(member)];
  if (!peer.file) {
    auto opened = openAdoptedFile(process, file);
    if (!opened) return std::move(opened).error();
    peer.file = std::move(*opened);
  }
  forgetUnused(peer);
  void* begin = mmap(nullptr, place.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
                     peer.file.get(), static_cast<off_t>(place.begin));
  if (begin == MAP_FAILED) return systemError("map the memory of another process");
  // A child of this process has no business there.
  madvise(begin, place.bytes, MADV_DONTFORK);
  peer.mappings[place.begin] = {static_cast<std::byte*>(begin), place.bytes};
  return {};
}

std::byte* PeerMemory::at(int member, const AdoptedPlace& place) const {
  return members_[static_cast<std::size_t>(member)].mappings.at(place.begin).begin;
}

// What a member gives up is a hole in its file from then on.
void PeerMemory::forgetUnused(Member& member) {
  for (auto at = member.mappings.begin(); at != member.mappings.end();) {
    const auto& [place, mapping] = *at;
    const off_t data = lseek(member.file.get(), static_cast<off_t>(place), SEEK_DATA);
    const bool is_hole =
        data < 0 ? errno == ENXIO : static_cast<std::uint64_t>(data) >= place + mapping.bytes;
    if (is_hole) unmap(mapping);
    at = is_hole ? member.mappings.erase(at) : std::next(at);
  }
}

}  // namespace dure::collective
