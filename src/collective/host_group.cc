#include "collective/host_group.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/core.h>

#include "collective/meeting.h"
#include "collective/reduce.h"

// The steps. An operation cuts its data into chunks as large as a slot and does a few stages on
// each: copy in, reduce, copy out. In every step a member does the first stage on one chunk, the
// second on the chunk before and so on, then tells the others, and begins the next step when all
// have told it. So there is one waiting per chunk, and all members have the same to do between two
// of them.
//
// A chunk of step s is in the slots s % kSlots until the last of at most three stages, in step s
// + 2. The slot is written again in step s + 4, which begins when all have done step s + 3; or, if
// step s + 3 is the last of an operation and nobody waits for it, when all have done step s + 2. So
// four slots are enough, and the last step of an operation need not be told.
//
// Large data may lie in memory that all members can be let into. They tell each other where, and if
// all have such a place, each works on its part of everyone's memory. Before that all have entered
// the operation, after it all have told that they are done: nobody writes to another's memory at
// any other time. Adopted memory is whole pages, so up to a page at either end of a member's data
// may lie outside: what does in any member goes through the slots.
namespace dure {
namespace {

// Up to here everyone reads all: one waiting, where reducing in parts takes two. Two members have
// less to wait for than more of them.
constexpr std::size_t kFlatOfTwo = 4u << 10u;
constexpr std::size_t kFlat = 32u << 10u;
// From here on it is worth asking whether the data can stay where it is: with less the edges cost
// as much as the copies.
constexpr std::size_t kInPlace = 128u << 10u;
// As much at either end of the data may lie outside of adopted memory.
constexpr std::size_t kEdge = 4096;
// Parts begin at whole lines.
constexpr std::size_t kLine = 64;

// [offset, offset + bytes) of a chunk that member `part` of `parts` reduces.
struct Range {
  std::size_t offset;
  std::size_t bytes;
};

Range partOf(std::size_t bytes, int part, int parts) {
  const auto count = static_cast<std::size_t>(parts);
  const std::size_t each = (bytes + count * kLine - 1) / (count * kLine) * kLine;
  const std::size_t begin = std::min(bytes, each * static_cast<std::size_t>(part));
  return {begin, std::min(each, bytes - begin)};
}

// In whose slot the result of a part is: over one of the inputs, whose lines the reducing processor
// has just fetched.
int homeOf(int part) { return part == 0 ? 1 : 0; }

std::size_t chunksOf(std::size_t bytes, std::size_t chunk) {
  return std::max<std::size_t>(1, (bytes + chunk - 1) / chunk);
}

// What of the data must lie in adopted memory.
std::span<std::byte> coreOf(std::span<std::byte> data) {
  return data.subspan(kEdge, data.size() - 2 * kEdge);
}

// How much of the data lies outside of adopted memory at its ends.
Edges edgesOf(const AdoptedPlace& place, std::size_t core_bytes) {
  const std::uint64_t before = place.at - place.begin;
  const std::uint64_t after = place.bytes - before - core_bytes;
  return {kEdge - std::min(kEdge, before), kEdge - std::min(kEdge, after)};
}

std::size_t sharedBytes(std::span<std::byte> data, const Edges& edges) {
  return data.size() - edges.head - edges.tail;
}

void copyBytes(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
}

}  // namespace

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
      peers_(size_),
      edges_(2 * kEdge) {
  if (memory_) steps_ = std::make_unique<Steps>(memory_, member_, ranks_, options.timeout);
}

Result<std::unique_ptr<HostGroup>> HostGroup::join(const HostGroupOptions& options) {
  const int members = static_cast<int>(options.ranks.size());
  if (members < 1 || members > kMaxMembers || options.member < 0 || options.member >= members) {
    return Error(Code::kInvalid,
                 fmt::format("a host of {} members has no member {}", members, options.member));
  }
  if (members == 1) return std::unique_ptr<HostGroup>(new HostGroup(nullptr, options));
  auto meeting = meet({.key = options.key,
                       .member = options.member,
                       .names = options.ranks,
                       .slot_bytes = options.slot_bytes,
                       .timeout = options.timeout});
  if (!meeting) return std::move(meeting).error();
  auto memory = SharedMemory::map(meeting->memory, members, options.slot_bytes);
  if (!memory) return std::move(memory).error();
  std::unique_ptr<HostGroup> group(new HostGroup(std::move(*memory), options));
  for (auto& other : meeting->others) group->steps_->watch(other.member, std::move(other.socket));
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
  steps_->meet();
  return {};
}

template <typename Body>
Status HostGroup::run(const Call& call, std::size_t chunks, std::uint32_t stages,
                      const Body& body) {
  if (failed_) return *failed_;
  const std::uint64_t packed = call.packed();
  memory_->line(member_).call[operations_ % 2].store(packed, std::memory_order_relaxed);
  const std::size_t steps = chunks + stages - 1;
  for (std::size_t i = 0; i < steps; ++i) {
    const std::uint32_t step = step_++;
    Status status;
    if (i > 0) status = steps_->wait(step - 1);
    if (status && i == 1) status = checkCalls(packed);
    if (!status) {
      failed_ = status.error();
      return status;
    }
    for (std::uint32_t stage = 0; stage < stages; ++stage) {
      if (i >= stage && i - stage < chunks) body(stage, i - stage, step - stage);
    }
    if (i + 1 < steps) steps_->post(step);
  }
  ++operations_;
  return {};
}

Status HostGroup::checkCalls(std::uint64_t mine) {
  for (int member = 0; member < size_; ++member) {
    const auto& call = memory_->line(member).call[operations_ % 2];
    if (call.load(std::memory_order_relaxed) == mine) continue;
    return steps_->fail(Error(
        Code::kInvalid,
        fmt::format("rank {} and rank {} do not ask for the same operation with the same size",
                    ranks_[static_cast<std::size_t>(std::min(member, member_))],
                    ranks_[static_cast<std::size_t>(std::max(member, member_))])));
  }
  return {};
}

void HostGroup::fail(const Error& error) {
  if (steps_) steps_->fail(error);
  if (!failed_) failed_ = error;
}

void HostGroup::give(std::byte* to, const std::byte* from, std::size_t bytes) {
  copyBytes(to, from, bytes);
  given_ += static_cast<std::int64_t>(bytes);
}

Status HostGroup::allReduce(std::span<std::byte> data, Number number, Reduction reduction) {
  return reduceTo(data, {Kind::kAllReduce, data.size(), number, reduction}, std::nullopt);
}

Status HostGroup::reduce(std::span<std::byte> data, Number number, Reduction reduction, int root) {
  return reduceTo(data, {Kind::kReduce, data.size(), number, reduction, root}, root);
}

Status HostGroup::reduceTo(std::span<std::byte> data, const Call& call, std::optional<int> root) {
  if (size_ == 1) return {};
  if (data.size() <= (size_ == 2 ? kFlatOfTwo : kFlat)) return reduceFlat(data, call, root);
  return inPlaceOrNot(
      data, call, [&](const Places& places) { reducePart(data, call, root, places); },
      [&] { return reduceInParts(data, call, root); });
}

Status HostGroup::reduceFlat(std::span<std::byte> data, const Call& call, std::optional<int> root) {
  const std::size_t chunk_bytes = memory_->slotBytes();
  const bool takes = !root || *root == member_;
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
                 dure::reduce(call.number, call.reduction, piece.data(), sources, piece.size());
               }
             });
}

Status HostGroup::reduceInParts(std::span<std::byte> data, const Call& call,
                                std::optional<int> root) {
  const std::size_t chunk_bytes = memory_->slotBytes();
  const bool takes = !root || *root == member_;
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
                 dure::reduce(call.number, call.reduction, std::span(outs, takes ? 2 : 1), sources,
                              part.bytes);
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

Result<HostGroup::Places> HostGroup::exchangePlaces(std::span<std::byte> data, const Call& call) {
  Places places;
  const auto place = findAdopted(coreOf(data));
  bool all_known = true;
  const Status status = run(call, 1, 2, [&](std::uint32_t stage, std::size_t, std::uint32_t step) {
    if (stage == 0) {
      tellPlace(place, place && !peers_.has(member_, *place));
      if (!place) return;
      // As much as any other member may need. To give what lies outside here, and the rest only to
      // those who need more, takes another step wherever pages begin differently.
      give(slot(member_, step), data.data(), kEdge);
      give(slot(member_, step) + kEdge, data.data() + data.size() - kEdge, kEdge);
      return;
    }
    for (int m = 0; m < size_; ++m) {
      const SharedPlace& told = memory_->line(m).place[operations_ % 2];
      const AdoptedPlace theirs{told.begin.load(std::memory_order_relaxed),
                                told.bytes.load(std::memory_order_relaxed),
                                told.at.load(std::memory_order_relaxed)};
      if (theirs.bytes == 0) {
        places = {};
        return;
      }
      const Edges edges = edgesOf(theirs, coreOf(data).size());
      places.edges = {std::max(places.edges.head, edges.head),
                      std::max(places.edges.tail, edges.tail)};
      if (told.fresh.load(std::memory_order_relaxed) != 0) all_known = false;
      places.of.push_back(theirs);
    }
    reduceEdges(call, places, step);
  });
  if (!status) return status.error();
  return all_known || places.of.empty() ? places : mapPlaces(std::move(places), call);
}

void HostGroup::reduceEdges(const Call& call, const Places& places, std::uint32_t step) {
  for (const auto& [offset, bytes] :
       {Range{0, places.edges.head}, Range{2 * kEdge - places.edges.tail, places.edges.tail}}) {
    if (bytes == 0) continue;
    std::vector<const std::byte*> sources;
    for (int m = 0; m < size_; ++m) {
      if (call.kind == Kind::kBroadcast && m != call.root) continue;
      sources.push_back(slot(m, step) + offset);
    }
    dure::reduce(call.number, call.reduction, edges_.data() + offset, sources, bytes);
  }
}

void HostGroup::takeEdges(std::span<std::byte> data, const Places& places) const {
  const auto [head, tail] = places.edges;
  copyBytes(data.data(), edges_.data(), head);
  copyBytes(data.data() + data.size() - tail, edges_.data() + edges_.size() - tail, tail);
}

void HostGroup::tellPlace(const std::optional<AdoptedPlace>& place, bool fresh) {
  MemberLine& line = memory_->line(member_);
  SharedPlace& told = line.place[operations_ % 2];
  const AdoptedPlace known = place.value_or(AdoptedPlace());
  told.begin.store(known.begin, std::memory_order_relaxed);
  told.bytes.store(known.bytes, std::memory_order_relaxed);
  told.at.store(known.at, std::memory_order_relaxed);
  told.fresh.store(fresh ? 1 : 0, std::memory_order_relaxed);
  if (!fresh) return;
  const AdoptedFile file = adoptedFile();
  line.file.store(file.descriptor, std::memory_order_relaxed);
  line.inode.store(file.inode, std::memory_order_relaxed);
}

// Some member's memory is new. That a member cannot map it must be known to all of them, and it
// will be the same the next time: then nothing is done in place any more.
Result<HostGroup::Places> HostGroup::mapPlaces(Places places, const Call& call) {
  bool mapped = true;
  for (int m = 0; m < size_; ++m) {
    const AdoptedPlace& place = places.of[static_cast<std::size_t>(m)];
    const MemberLine& line = memory_->line(m);
    const AdoptedFile file{line.file.load(std::memory_order_relaxed),
                           line.inode.load(std::memory_order_relaxed)};
    mapped = mapped && (peers_.has(m, place) || peers_.map(m, place, line.pid.load(), file));
  }
  bool all_mapped = true;
  const Status status = run(call, 1, 2, [&](std::uint32_t stage, std::size_t, std::uint32_t) {
    if (stage == 0) {
      tellPlace(std::nullopt, false);
      memory_->line(member_).place[operations_ % 2].bytes.store(mapped ? 1 : 0,
                                                                std::memory_order_relaxed);
      return;
    }
    for (int m = 0; m < size_; ++m) {
      const SharedPlace& told = memory_->line(m).place[operations_ % 2];
      if (told.bytes.load(std::memory_order_relaxed) == 0) all_mapped = false;
    }
  });
  if (!status) return status.error();
  if (!all_mapped) {
    works_in_place_ = false;
    places = {};
  }
  return places;
}

template <typename Body, typename Otherwise>
Status HostGroup::inPlaceOrNot(std::span<std::byte> data, const Call& call, const Body& body,
                               const Otherwise& otherwise) {
  if (!works_in_place_ || data.size() < kInPlace || memory_->slotBytes() < edges_.size()) {
    return otherwise();
  }
  auto places = exchangePlaces(data, call);
  if (places && places->of.empty()) return otherwise();
  Status status = places ? run(call, 1, 2,
                               [&](std::uint32_t stage, std::size_t, std::uint32_t) {
                                 if (stage == 0) body(*places);
                               })
                         : Status(std::move(places).error());
  // Others may still be at work in this member's memory: they are left alone with what they see.
  if (!status) {
    takeBack(coreOf(data));
    return status;
  }
  ++in_place_;
  return {};
}

std::byte* HostGroup::sharedDataOf(int member, std::span<std::byte> data,
                                   const Places& places) const {
  if (member == member_) return data.data() + places.edges.head;
  const AdoptedPlace& place = places.of[static_cast<std::size_t>(member)];
  return peers_.at(member, place) + (place.at - place.begin) - (kEdge - places.edges.head);
}

void HostGroup::reducePart(std::span<std::byte> data, const Call& call, std::optional<int> root,
                           const Places& places) {
  const Range part = partOf(sharedBytes(data, places.edges), member_, size_);
  std::vector<const std::byte*> sources;
  std::vector<std::byte*> outs;
  for (int m = 0; m < size_; ++m) {
    std::byte* at = sharedDataOf(m, data, places) + part.offset;
    sources.push_back(at);
    if (!root || *root == m) outs.push_back(at);
  }
  dure::reduce(call.number, call.reduction, outs, sources, part.bytes);
  given_ += static_cast<std::int64_t>(part.bytes * outs.size());
  if (!root || *root == member_) takeEdges(data, places);
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
                 dure::reduce(number, reduction, mine.data() + offset, sources, bytes);
             });
}

Status HostGroup::broadcast(std::span<std::byte> data, int root) {
  if (size_ == 1) return {};
  const Call call{.kind = Kind::kBroadcast, .bytes = data.size(), .root = root};
  return inPlaceOrNot(
      data, call,
      [&](const Places& places) {
        if (member_ == root) return;
        copyBytes(data.data() + places.edges.head, sharedDataOf(root, data, places),
                  sharedBytes(data, places.edges));
        takeEdges(data, places);
      },
      [&] { return broadcastInChunks(data, call); });
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

}  // namespace dure
