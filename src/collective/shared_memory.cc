#include "collective/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <fmt/core.h>

namespace dure::collective {
namespace {

constexpr std::size_t kPage = 4096;

// Slots begin at different places of a page: a processor takes a load for dependent on a store
// whose address has the same last twelve bits.
std::size_t strideOf(std::size_t slot_bytes) { return slot_bytes + 5 * kApart; }

std::size_t slotsBegin(int members) {
  const std::size_t before = sizeof(MemoryHeader) + static_cast<std::size_t>(members) *
                                                        (sizeof(MemberLine) + sizeof(SleeperLine));
  return (before + kPage - 1) / kPage * kPage;
}

std::size_t sizeOfMemory(int members, std::size_t slot_bytes) {
  const std::size_t end =
      slotsBegin(members) + static_cast<std::size_t>(members) * kSlots * strideOf(slot_bytes);
  return (end + kPage - 1) / kPage * kPage;
}

}  // namespace

Result<Fd> SharedMemory::create(int members, std::size_t slot_bytes) {
  Fd memory(memfd_create("dure", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory) return systemError("memfd_create");
  if (ftruncate(memory.get(), static_cast<off_t>(sizeOfMemory(members, slot_bytes))) != 0) {
    return systemError("size shared memory");
  }
  if (fcntl(memory.get(), F_ADD_SEALS, kSizeSeals | F_SEAL_SEAL) != 0) {
    return systemError("seal shared memory");
  }
  return memory;
}

Result<std::shared_ptr<SharedMemory>> SharedMemory::map(const Fd& memory, int members,
                                                        std::size_t slot_bytes) {
  struct stat info {};
  if (fstat(memory.get(), &info) != 0) return systemError("stat shared memory");
  const std::size_t size = sizeOfMemory(members, slot_bytes);
  // Memory that another could cut short would kill whoever touches it.
  const int seals = fcntl(memory.get(), F_GET_SEALS);
  if (static_cast<std::size_t>(info.st_size) != size || seals < 0 ||
      (seals & kSizeSeals) != kSizeSeals) {
    return Error(Code::kInvalid,
                 fmt::format("the shared memory is not that of {} members", members));
  }
  void* begin = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  if (begin == MAP_FAILED) return systemError("map shared memory");
  return std::shared_ptr<SharedMemory>(
      new SharedMemory(static_cast<std::byte*>(begin), members, slot_bytes));
}

SharedMemory::SharedMemory(std::byte* begin, int members, std::size_t slot_bytes)
    : begin_(begin),
      members_(members),
      slot_bytes_(slot_bytes),
      stride_(strideOf(slot_bytes)),
      header_(reinterpret_cast<MemoryHeader*>(begin)),
      lines_(reinterpret_cast<MemberLine*>(begin + sizeof(MemoryHeader))),
      sleepers_(reinterpret_cast<SleeperLine*>(lines_ + members)),
      slots_(begin + slotsBegin(members)) {}

SharedMemory::~SharedMemory() { munmap(begin_, sizeOfMemory(members_, slot_bytes_)); }

}  // namespace dure::collective
