#pragma once

#include <fcntl.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/fd.h"
#include "base/result.h"

namespace dure::collective {

// What the members of a host share: a header, a line of counters for each, and slots for their
// data. Both ends of the memory are compiled from this file; kLayout changes with it.
inline constexpr std::uint32_t kLayout = 3;
inline constexpr int kMaxMembers = 1024;
// A file that others map must keep its size, or they die reading it.
inline constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW;
// Each member has as many, used in turn: see HostGroup about why four are enough.
inline constexpr std::uint32_t kSlots = 4;

// Processors further apart than a line still fetch lines in pairs.
inline constexpr std::size_t kApart = 128;

// Where a member's buffer lies in its registered file; see RegisteredMemory.
struct PublishedRegion {
  std::atomic<std::uint64_t> begin;  // of the registered range it lies in
  std::atomic<std::uint64_t> bytes;  // of that; 0: it is not registered
  std::atomic<std::uint64_t> at;     // of the buffer
  std::atomic<std::uint32_t> fresh;  // 1: no member has mapped it yet
  std::atomic<std::uint16_t> head;   // how much of either end of the buffer is in the slot
  std::atomic<std::uint16_t> tail;
};

// Written by one member, read by the others. Zero at first, as fresh memory is.
struct alignas(kApart) MemberLine {
  std::atomic<std::uint32_t> step;  // the last one that this member has done; others sleep on it
  std::atomic<std::uint32_t> left;  // 1: it has left cleanly
  std::atomic<std::int32_t> pid;
  std::atomic<std::int32_t> processor;  // where this member ran when it did that step
  std::atomic<std::uint64_t> call[2];   // what this member and the one before asked for
  std::atomic<std::uint64_t> inode;     // of its registered file, and
  std::atomic<std::int32_t> file;       // its descriptor in that process
  PublishedRegion region[2];            // of this operation and the one before
};
static_assert(sizeof(MemberLine) == kApart);

// How many sleep on a member's `step`; apart from it, since others write it.
struct alignas(kApart) SleeperLine {
  std::atomic<std::uint32_t> count;
};

struct alignas(kApart) MemoryHeader {
  static constexpr std::size_t kText = 512;
  static constexpr std::size_t kProcessors = 1024;

  std::atomic<std::uint32_t> failure;  // 0: none, 1: `text` is being written, 2: it can be read
  char text[kText];
  std::atomic<std::uint64_t> processors[kProcessors / 64];  // that any member may run on
};

// The mapping of it in one process.
class SharedMemory {
 public:
  // New memory, of a fixed size, that lives as long as anyone has it mapped or open. It has no
  // name: nothing is left of it however its users end.
  static Result<Fd> create(int members, std::size_t slot_bytes);
  // Invalid if the descriptor is no memory for so many members, or could still shrink.
  static Result<std::shared_ptr<SharedMemory>> map(const Fd& memory, int members,
                                                   std::size_t slot_bytes);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  int members() const { return members_; }
  std::size_t slotBytes() const { return slot_bytes_; }
  MemoryHeader& header() const { return *header_; }
  MemberLine& line(int member) const { return lines_[member]; }
  SleeperLine& sleepers(int member) const { return sleepers_[member]; }
  // The slot that `member` fills in this step.
  std::byte* slot(int member, std::uint32_t step) const {
    return slots_ + (static_cast<std::size_t>(member) * kSlots + step % kSlots) * stride_;
  }

 private:
  SharedMemory(std::byte* begin, int members, std::size_t slot_bytes);

  std::byte* begin_;
  int members_;
  std::size_t slot_bytes_;
  std::size_t stride_;
  MemoryHeader* header_;
  MemberLine* lines_;
  SleeperLine* sleepers_;
  std::byte* slots_;
};

}  // namespace dure::collective
