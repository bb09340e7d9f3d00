#include "collective/host_group.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/core.h>

#include "collective/host_group_pipeline.h"
#include "collective/reduce.h"
#include "collective/rendezvous.h"

// The pipeline. An operation cuts its data into chunks as large as a slot and does a few stages on
// each: copy in, reduce, copy out. In every step a member does the first stage on one chunk, the
// second on the chunk before and so on, then posts the step, and begins the next one when all have
// posted it. So there is one synchronisation per chunk, and all members have the same to do between
// two of them.
//
// A chunk of step s is in the slots s % kSlots until the last of at most three stages, in step s
// + 2. The slot is written again in step s + 4, which begins when all have done step s + 3; or, if
// step s + 3 is the last of an operation and nobody waits for it, when all have done step s + 2. So
// four slots are enough, and nobody needs to post the last step of an operation.
namespace dure::collective {
namespace {

// Up to here everyone reads all: one synchronisation, where reducing in parts takes two. Two
// members have less to wait for than more of them.
constexpr std::size_t kFlatOfTwo = 4u << 10u;
constexpr std::size_t kFlat = 32u << 10u;
// In whose slot the result of a part is: over one of the inputs, whose lines the reducing processor
// has just fetched.
int homeOf(int part) { return part == 0 ? 1 : 0; }

std::size_t chunksOf(std::size_t bytes, std::size_t chunk) {
  return std::max<std::size_t>(1, (bytes + chunk - 1) / chunk);
}

}  // namespace

bool HostGroup::Call::givesTo(int member) const {
  return kind == Kind::kBroadcast ? member != root : kind != Kind::kReduce || member == root;
}

std::uint64_t HostGroup::Call::packed() const {
  return static_cast<std::uint64_t>(kind) | static_cast<std::uint64_t>(number) << 4 |
         static_cast<std::uint64_t>(reduction) << 8 | static_cast<std::uint64_t>(root) << 12 |
         static_cast<std::uint64_t>(bytes) << 24;
}

HostGroup::HostGroup(std::shared_ptr<SharedMemory> memory, const HostGroupOptions& options)
    : memory_(std::move(memory)),
      member_(options.member),
      size_(static_cast<int>(options.ranks.size())),
      ranks_(options.ranks),
      peers_(size_) {
  const Duration wait = options.wait.count() > 0 ? options.wait : options.timeout;
  if (memory_) sync_ = std::make_unique<MemberSync>(memory_, member_, ranks_, wait);
}

Result<std::unique_ptr<HostGroup>> HostGroup::join(const HostGroupOptions& options) {
  const int members = static_cast<int>(options.ranks.size());
  if (members < 1 || members > kMaxMembers || options.member < 0 || options.member >= members) {
    return Error(Code::kInvalid,
                 fmt::format("a host of {} members has no member {}", members, options.member));
  }
  if (members == 1) return std::unique_ptr<HostGroup>(new HostGroup(nullptr, options));
  auto rendezvous = joinRendezvous({.key = options.key,
                                    .member = options.member,
                                    .ranks = options.ranks,
                                    .slot_bytes = options.slot_bytes,
                                    .timeout = options.timeout});
  if (!rendezvous) return std::move(rendezvous).error();
  auto memory = SharedMemory::map(rendezvous->memory, members, options.slot_bytes);
  if (!memory) return std::move(memory).error();
  std::unique_ptr<HostGroup> group(new HostGroup(std::move(*memory), options));
  for (auto& other : rendezvous->others) group->sync_->watch(other.member, std::move(other.socket));
  if (auto status = group->start(); !status) return std::move(status).error();
  return group;
}

Result<std::unique_ptr<HostGroup>> HostGroup::joinInside(std::shared_ptr<SharedMemory> memory,
                                                         const HostGroupOptions& options) {
  std::unique_ptr<HostGroup> group(new HostGroup(std::move(memory), options));
  if (auto status = group->start(); !status) return std::move(status).error();
  return group;
}

Status HostGroup::start() {
  step_ = 1;
  if (auto status = barrier(); !status) return status;
  sync_->start();
  return {};
}

Status HostGroup::checkCalls(std::uint64_t mine) {
  for (int member = 0; member < size_; ++member) {
    const auto& call = memory_->line(member).call[operations_ % 2];
    if (call.load(std::memory_order_relaxed) == mine) continue;
    return sync_->fail(Error(
        Code::kInvalid,
        fmt::format("rank {} and rank {} do not ask for the same operation with the same size",
                    ranks_[static_cast<std::size_t>(std::min(member, member_))],
                    ranks_[static_cast<std::size_t>(std::max(member, member_))])));
  }
  return {};
}

void HostGroup::fail(const Error& error) {
  if (sync_) sync_->fail(error);
  if (!failed_) failed_ = error;
}

Status HostGroup::allReduce(std::span<std::byte> data, Number number, Reduction reduction) {
  return reduceTo(data, {Kind::kAllReduce, data.size(), number, reduction});
}

Status HostGroup::reduce(std::span<std::byte> data, Number number, Reduction reduction, int root) {
  return reduceTo(data, {Kind::kReduce, data.size(), number, reduction, root});
}

Status HostGroup::reduceTo(std::span<std::byte> data, const Call& call) {
  if (size_ == 1) return {};
  if (data.size() <= (size_ == 2 ? kFlatOfTwo : kFlat)) return reduceFlat(data, call);
  const auto done = tryInPlace(data, call);
  if (!done) return done.error();
  return *done ? Status() : reduceInParts(data, call);
}

Status HostGroup::reduceFlat(std::span<std::byte> data, const Call& call) {
  const std::size_t chunk_bytes = memory_->slotBytes();
  const bool takes = call.givesTo(member_);
  std::vector<const std::byte*> sources(static_cast<std::size_t>(size_));
  return run(call, chunksOf(data.size(), chunk_bytes), 2,
             [&](std::uint32_t stage, std::size_t chunk, std::uint32_t step) {
               const auto piece = data.subspan(
                   chunk * chunk_bytes, std::min(chunk_bytes, data.size() - chunk * chunk_bytes));
               if (stage == 0) {
                 give(slot(member_, step), piece.data(), piece.size());
               } else if (takes) {
                 for (int m = 0; m < size_; ++m)
                   sources[static_cast<std::size_t>(m)] = slot(m, step);
                 dure::collective::reduce(call.number, call.reduction, piece.data(), sources,
                                          piece.size());
               }
             });
}

Status HostGroup::reduceInParts(std::span<std::byte> data, const Call& call) {
  const std::size_t chunk_bytes = memory_->slotBytes();
  const bool takes = call.givesTo(member_);
  std::vector<const std::byte*> sources(static_cast<std::size_t>(size_));
  return run(call, chunksOf(data.size(), chunk_bytes), 3,
             [&](std::uint32_t stage, std::size_t chunk, std::uint32_t step) {
               const auto piece = data.subspan(
                   chunk * chunk_bytes, std::min(chunk_bytes, data.size() - chunk * chunk_bytes));
               if (stage == 1) {
                 const Range part = partOf(piece.size(), member_, size_);
                 for (int m = 0; m < size_; ++m) {
                   sources[static_cast<std::size_t>(m)] =
                       (m == member_ ? piece.data() : slot(m, step)) + part.offset;
                 }
                 std::byte* const outs[] = {slot(homeOf(member_), step) + part.offset,
                                            piece.data() + part.offset};
                 dure::collective::reduce(call.number, call.reduction,
                                          std::span(outs, takes ? 2 : 1), sources, part.bytes);
                 given_ += static_cast<std::int64_t>(part.bytes);
                 return;
               }
               for (int m = 0; m < size_; ++m) {
                 if (m == member_) continue;
                 const Range part = partOf(piece.size(), m, size_);
                 if (stage == 0) {
                   give(slot(member_, step) + part.offset, piece.data() + part.offset, part.bytes);
                 } else if (takes) {
                   copyBytes(piece.data() + part.offset, slot(homeOf(m), step) + part.offset,
                             part.bytes);
                 }
               }
             });
}

Status HostGroup::reduceScatter(std::span<const std::byte> all, std::span<std::byte> mine,
                                Number number, Reduction reduction) {
  if (size_ == 1) {
    copyBytes(mine.data(), all.data(), mine.size());
    return {};
  }
  const std::size_t each = memory_->slotBytes() / static_cast<std::size_t>(size_) / kLine * kLine;
  std::vector<const std::byte*> sources(static_cast<std::size_t>(size_));
  return run({Kind::kReduceScatter, mine.size(), number, reduction}, chunksOf(mine.size(), each), 2,
             [&](std::uint32_t stage, std::size_t chunk, std::uint32_t step) {
               const std::size_t offset = chunk * each;
               const std::size_t bytes = std::min(each, mine.size() - offset);
               for (int m = 0; m < size_; ++m) {
                 const auto index = static_cast<std::size_t>(m);
                 if (stage == 0) {
                   give(slot(member_, step) + index * each,
                        all.data() + index * mine.size() + offset, bytes);
                 } else {
                   sources[index] = slot(m, step) + static_cast<std::size_t>(member_) * each;
                 }
               }
               if (stage == 1)
                 dure::collective::reduce(number, reduction, mine.data() + offset, sources, bytes);
             });
}

Status HostGroup::broadcast(std::span<std::byte> data, int root) {
  if (size_ == 1) return {};
  const Call call{.kind = Kind::kBroadcast, .bytes = data.size(), .root = root};
  const auto done = tryInPlace(data, call);
  if (!done) return done.error();
  return *done ? Status() : broadcastInChunks(data, call);
}

Status HostGroup::broadcastInChunks(std::span<std::byte> data, const Call& call) {
  const std::size_t chunk_bytes = memory_->slotBytes();
  return run(call, chunksOf(data.size(), chunk_bytes), 2,
             [&](std::uint32_t stage, std::size_t chunk, std::uint32_t step) {
               const auto piece = data.subspan(
                   chunk * chunk_bytes, std::min(chunk_bytes, data.size() - chunk * chunk_bytes));
               if (stage == 0 && member_ == call.root) {
                 give(slot(call.root, step), piece.data(), piece.size());
               } else if (stage == 1 && member_ != call.root) {
                 copyBytes(piece.data(), slot(call.root, step), piece.size());
               }
             });
}

Status HostGroup::allGather(std::span<const std::byte> mine, std::span<std::byte> all) {
  const std::size_t size = mine.size();
  if (size_ == 1) {
    copyBytes(all.data(), mine.data(), size);
    return {};
  }
  const std::size_t chunk_bytes = memory_->slotBytes();
  return run({.kind = Kind::kAllGather, .bytes = size}, chunksOf(size, chunk_bytes), 2,
             [&](std::uint32_t stage, std::size_t chunk, std::uint32_t step) {
               const std::size_t offset = chunk * chunk_bytes;
               const std::size_t bytes = std::min(chunk_bytes, size - offset);
               if (stage == 0) {
                 give(slot(member_, step), mine.data() + offset, bytes);
                 return;
               }
               for (int m = 0; m < size_; ++m) {
                 const std::byte* from = m == member_ ? mine.data() + offset : slot(m, step);
                 copyBytes(all.data() + static_cast<std::size_t>(m) * size + offset, from, bytes);
               }
             });
}

Status HostGroup::barrier() {
  if (size_ == 1) return {};
  return run({.kind = Kind::kBarrier}, 1, 2, [](std::uint32_t, std::size_t, std::uint32_t) {});
}

}  // namespace dure::collective
