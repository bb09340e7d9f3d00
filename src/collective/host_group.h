#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "collective/member_sync.h"
#include "collective/number.h"
#include "collective/peer_memory.h"
#include "collective/shared_memory.h"

namespace dure::collective {

struct HostGroupOptions {
  std::string key;            // the same for all members, and for nobody else
  int member = 0;             // from 0
  std::vector<int> ranks;     // one for each member: its rank, for messages
  Duration timeout{300'000};  // of the joining
  Duration wait{0};           // of every later wait; 0: the same
  // What a member hands over at once. Small enough for the caches of two processors to hold what is
  // under way, large enough to hide the cost of synchronisation.
  std::size_t slot_bytes = 128u << 10u;
};

// Bytes at either end of data that do not lie in registered memory, though the rest does.
struct Edges {
  std::size_t head = 0;
  std::size_t tail = 0;
};

// Processes of one host that compute together through shared memory. Every member calls the same
// operations with the same sizes in the same order, from one thread at a time. Reductions are in
// the order of the members, so that the same inputs give the same bits, and every member gets the
// same bits. Data is aligned as its numbers are.
//
// Data that lies in registered memory in every member (see RegisteredMemory) is reduced in place:
// each member reads a part of all buffers and writes its result into all. Other data is copied
// through slots.
//
// Every operation fails with Unavailable if a member has ended, has failed or does not come within
// the timeout, and with Invalid if the members ask for different operations. A group that has
// failed stays failed.
class HostGroup {
 public:
  // Waits until all members have come. A group of one talks to nobody.
  static Result<std::unique_ptr<HostGroup>> join(const HostGroupOptions& options);
  // The same over memory that is mapped already: for members that are threads of one process.
  static Result<std::unique_ptr<HostGroup>> joinInside(std::shared_ptr<SharedMemory> memory,
                                                       const HostGroupOptions& options);

  int member() const { return member_; }
  int size() const { return size_; }

  // Every member's `data` becomes the reduction of all of them.
  Status allReduce(std::span<std::byte> data, Number number, Reduction reduction);
  // That of `root` only; what the others' is afterwards is not said.
  Status reduce(std::span<std::byte> data, Number number, Reduction reduction, int root);
  // Everyone's `all` has a part for each member: `mine` becomes the reduction of all members' part
  // for this one. They do not overlap, unless `mine` is that part of `all`.
  Status reduceScatter(std::span<const std::byte> all, std::span<std::byte> mine, Number number,
                       Reduction reduction);
  // Everyone's `data` becomes that of `root`.
  Status broadcast(std::span<std::byte> data, int root);
  // `all` becomes every member's `mine`, in their order; `mine` may be this member's part of it.
  Status allGather(std::span<const std::byte> mine, std::span<std::byte> all);
  Status barrier();

  // Makes the other members' operations fail too, with this reason.
  void fail(const Error& error);

  // What this member has written for others to read.
  std::int64_t bytesGiven() const { return given_; }
  // How many operations were zero-copy.
  std::int64_t doneInPlace() const { return in_place_; }

 private:
  HostGroup(std::shared_ptr<SharedMemory> memory, const HostGroupOptions& options);

  enum class Kind : std::uint8_t {
    kAllReduce,
    kReduce,
    kReduceScatter,
    kBroadcast,
    kAllGather,
    kBarrier
  };
  // What is asked for, so that the members can compare it.
  struct Call {
    Kind kind;
    std::size_t bytes = 0;
    Number number{};
    Reduction reduction{};
    int root = 0;
    std::uint64_t packed() const;
    // Whether that member's data becomes the result.
    bool givesTo(int member) const;
  };

  // Does the `stages` of an operation on its chunks, at least one of them and at least two of
  // these: `body(stage, chunk, step)` with the step in which the chunk's first stage was, which
  // names its slots. A stage sees what all members did in the stage before it.
  template <typename Body>
  Status run(const Call& call, std::size_t chunks, std::uint32_t stages, const Body& body);
  Status checkCalls(std::uint64_t mine);
  Status start();

  Status reduceTo(std::span<std::byte> data, const Call& call);
  Status reduceFlat(std::span<std::byte> data, const Call& call);
  Status reduceInParts(std::span<std::byte> data, const Call& call);
  Status broadcastInChunks(std::span<std::byte> data, const Call& call);

  // Where the members' buffers are, once they have published it.
  struct Buffers {
    std::vector<BufferRegion> of;  // the members; empty if they must copy
    Edges edges;                   // what lies outside in any member, and
    std::uint32_t edges_step = 0;  // which slots it is in
  };
  // Does the operation in place if the data is in registered memory in all members: true then.
  Result<bool> tryInPlace(std::span<std::byte> data, const Call& call);
  Result<Buffers> exchangeRegions(std::span<std::byte> data, const Call& call);
  void publishRegion(const std::optional<BufferRegion>& region, bool fresh, const Edges& given);
  // What lies outside of regions goes through slots.
  void giveEdges(std::span<std::byte> data, const Edges& edges, std::uint32_t step);
  Result<Buffers> mapRegions(Buffers buffers, const Call& call);
  void takeEdges(std::span<std::byte> data, const Call& call, const Buffers& buffers);
  // Where that member's data is, after the head.
  std::byte* sharedDataOf(int member, std::span<std::byte> data, const Buffers& buffers) const;
  void workInPlace(std::span<std::byte> data, const Call& call, const Buffers& buffers);
  void reducePart(std::span<std::byte> data, const Call& call, const Buffers& buffers);

  std::byte* slot(int member, std::uint32_t step) const { return memory_->slot(member, step); }
  void give(std::byte* to, const std::byte* from, std::size_t bytes);

  const std::shared_ptr<SharedMemory> memory_;  // none in a group of one; shared with `sync_`
  const int member_;
  const int size_;
  const std::vector<int> ranks_;
  std::unique_ptr<MemberSync> sync_;
  std::optional<Error> failed_;
  bool works_in_place_ = true;  // the same in all members
  PeerMemory peers_;
  std::vector<const std::byte*> sources_;            // of the reduction that is done now, and
  std::vector<std::byte*> outs_;                     // where it goes
  std::unordered_map<std::uint64_t, Edges> needed_;  // more than lay outside here, by data's offset
  std::uint32_t step_ = 0;                           // the next one
  std::uint32_t operations_ = 0;
  std::int64_t given_ = 0;
  std::int64_t in_place_ = 0;
};

}  // namespace dure::collective
