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
    for (const auto& [offset, mapping] : member.mappings) unmap(mapping);
  }
}

void PeerMemory::unmap(const Mapping& mapping) { munmap(mapping.begin, mapping.bytes); }

bool PeerMemory::has(int member, const BufferRegion& region) const {
  return members_[static_cast<std::size_t>(member)].mappings.contains(region.begin);
}

Status PeerMemory::map(int member, const BufferRegion& region, int process,
                       const RegisteredFile& file) {
  Member& peer = members_[static_cast<std::size_t>(member)];
  if (!peer.file) {
    auto opened = openRegisteredFile(process, file);
    if (!opened) return std::move(opened).error();
    peer.file = std::move(*opened);
  }
  forgetUnused(peer);
  void* begin = mmap(nullptr, region.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
                     peer.file.get(), static_cast<off_t>(region.begin));
  if (begin == MAP_FAILED) return systemError("map the memory of another process");
  // A child of this process has no business there.
  madvise(begin, region.bytes, MADV_DONTFORK);
  peer.mappings[region.begin] = {static_cast<std::byte*>(begin), region.bytes};
  return {};
}

std::byte* PeerMemory::at(int member, const BufferRegion& region) const {
  return members_[static_cast<std::size_t>(member)].mappings.at(region.begin).begin;
}

// A range that a member has unregistered is a hole in its file.
void PeerMemory::forgetUnused(Member& member) {
  for (auto at = member.mappings.begin(); at != member.mappings.end();) {
    const auto& [offset, mapping] = *at;
    const off_t data = lseek(member.file.get(), static_cast<off_t>(offset), SEEK_DATA);
    const bool is_hole =
        data < 0 ? errno == ENXIO : static_cast<std::uint64_t>(data) >= offset + mapping.bytes;
    if (is_hole) unmap(mapping);
    at = is_hole ? member.mappings.erase(at) : std::next(at);
  }
}

}  // namespace dure::collective
