#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "collective/registered_memory.h"

namespace dure::group {

// Gradient compression: how 32-bit floats travel between hosts. The rounding error is kept as a
// residual and added to the next all-reduce of the same stream (error feedback). Within a host
// nothing is compressed.
enum class Compression { kNone, kBFloat16, kFloat16 };

struct GroupOptions {
  std::string address;  // where rank 0 waits for the others
  std::uint16_t port = 0;
  int rank = 0;
  int size = 1;
  // The same in every rank and different in every generation of every run: what is left of another
  // attempt is never joined.
  std::string key;
  Compression compression = Compression::kNone;
  Duration timeout{300'000};  // of the joining
  Duration wait{0};           // of every later wait; 0: the same
};

// What the group has cost this process so far.
struct Traffic {
  std::int64_t network_bytes = 0;  // sent to other hosts
  std::int64_t memory_bytes = 0;   // given to other processes of this host
  std::int64_t operations = 0;
  std::int64_t in_place = 0;  // zero-copy operations within this host
  Duration waited{0};         // inside operations, in all (kept finer within)
};

// The processes of a job, as one: shared memory between those of a host, and one leader per host
// over Gloo (or NCCL, where the build has it). Every member calls the same operations in the same
// order. A group is used by one thread at a time. Reductions are in a fixed order, so that the same
// inputs give the same bits, and every member gets the same bits.
//
// The death of a member makes the others' operations fail with Unavailable, in a second or so
// within a host; a group that has failed stays failed.
class Group {
 public:
  virtual ~Group() = default;

  int rank() const { return rank_; }
  int size() const { return size_; }
  int hosts() const { return hosts_; }

  // Every member's `data` becomes the sum over all of them. Each `stream` (from 0) has its own
  // residual for error feedback.
  virtual Status allReduce(std::span<float> data, int stream = 0) = 0;
  // The same for other numbers, never compressed.
  virtual Status allReduce(std::span<double> data) = 0;
  virtual Status allReduce(std::span<std::int64_t> data) = 0;
  // `data` of `root` in every member.
  virtual Status broadcast(std::span<std::byte> data, int root) = 0;
  // `all` becomes every member's `mine`, in the order of the ranks. All are of the same size.
  virtual Status allGather(std::span<const std::byte> mine, std::span<std::byte> all) = 0;
  virtual Status barrier() = 0;

  // Registers a buffer that the caller all-reduces repeatedly: as long as the result lives,
  // all-reduces of it, or of parts of it, are zero-copy within a host if every member does the
  // same. It is ordinary memory of the heap that outlives the result, and nobody uses it during the
  // call. None if that would gain nothing or the system refuses it; all-reduces then copy.
  virtual std::unique_ptr<collective::RegisteredMemory> registerBuffer(std::span<float> data) = 0;

  virtual Traffic traffic() const = 0;

  // The residuals of this process, for checkpoints: empty unless there is compression and this
  // process is its host's leader. A run that restores them goes on with the same bits.
  virtual std::string residuals() const = 0;
  virtual Status restoreResiduals(std::string_view bytes) = 0;

 protected:
  int rank_ = 0;
  int size_ = 1;
  int hosts_ = 1;
};

// Waits until all members have come. A group of one needs no address and talks to nobody.
Result<std::unique_ptr<Group>> joinGroup(const GroupOptions& options);

}  // namespace dure::group
