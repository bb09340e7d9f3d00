#include <optional>
#include <utility>

#include "collective/host_group_pipeline.h"
#include "collective/reduce.h"

// Zero-copy. Large data may lie in registered memory, which all members can map. They publish
// where, and if all buffers are registered, each member works on its part of every buffer. Before
// that all have entered the operation, after it all have posted that they are done: nobody writes
// to another's memory at any other time. Registered memory is whole pages, so up to a page at
// either end of a member's data may lie outside: what does in any member goes through the slots.
namespace dure::collective {
namespace {

// From here on it is worth asking whether the data can stay where it is: with less the edges cost
// as much as the copies.
constexpr std::size_t kInPlace = 64u << 10u;
// As much at either end of the data may lie outside of registered memory.
constexpr std::size_t kEdge = 4096;
// A member remembers of so many buffers how much of their ends the others need.
constexpr std::size_t kMostNeeded = 4096;

// What of the data must lie in registered memory.
std::span<std::byte> coreOf(std::span<std::byte> data) {
  return data.subspan(kEdge, data.size() - 2 * kEdge);
}

// How much of the data lies outside of registered memory at its ends.
Edges edgesOf(const BufferRegion& region, std::size_t core_bytes) {
  const std::uint64_t before = region.at - region.begin;
  const std::uint64_t after = region.bytes - before - core_bytes;
  return {kEdge - std::min(kEdge, before), kEdge - std::min(kEdge, after)};
}

Edges larger(const Edges& a, const Edges& b) {
  return {std::max(a.head, b.head), std::max(a.tail, b.tail)};
}

std::size_t sharedBytes(std::span<std::byte> data, const Edges& edges) {
  return data.size() - edges.head - edges.tail;
}

}  // namespace

// Others may still be at work in this member's memory when an operation fails: they are left alone
// with what they see.
Result<bool> HostGroup::tryInPlace(std::span<std::byte> data, const Call& call) {
  if (!works_in_place_ || data.size() < kInPlace || memory_->slotBytes() < 2 * kEdge) return false;
  const auto buffers = exchangeRegions(data, call);
  if (buffers && buffers->of.empty()) return false;
  Status status = buffers ? run(call, 1, 2,
                                [&](std::uint32_t stage, std::size_t, std::uint32_t) {
                                  if (stage == 0) workInPlace(data, call, *buffers);
                                })
                          : Status(buffers.error());
  if (!status) {
    unregister(coreOf(data));
    return status.error();
  }
  ++in_place_;
  return true;
}

void HostGroup::workInPlace(std::span<std::byte> data, const Call& call, const Buffers& buffers) {
  if (call.kind != Kind::kBroadcast) {
    reducePart(data, call, buffers);
  } else if (member_ != call.root) {
    copyBytes(data.data() + buffers.edges.head, sharedDataOf(call.root, data, buffers),
              sharedBytes(data, buffers.edges));
  }
  if (call.givesTo(member_)) takeEdges(data, call, buffers);
}

// A member publishes the ends of its data together with the region, which saves one
// synchronisation: as much as lies outside here, and as the others needed the last time.
Result<HostGroup::Buffers> HostGroup::exchangeRegions(std::span<std::byte> data, const Call& call) {
  const auto region = findRegistered(coreOf(data));
  Edges given;
  if (region) {
    const Edges needed = needed_.contains(region->at) ? needed_.at(region->at) : Edges{};
    given = larger(edgesOf(*region, coreOf(data).size()), needed);
  }
  Buffers buffers;
  bool all_known = true;
  bool all_given = true;
  Status status = run(call, 1, 2, [&](std::uint32_t stage, std::size_t, std::uint32_t step) {
    if (stage == 0) {
      publishRegion(region, region && !peers_.has(member_, *region), given);
      giveEdges(data, given, step);
      return;
    }
    for (int m = 0; m < size_; ++m) {
      const PublishedRegion& published = memory_->line(m).region[operations_ % 2];
      const BufferRegion theirs{published.begin.load(std::memory_order_relaxed),
                                published.bytes.load(std::memory_order_relaxed),
                                published.at.load(std::memory_order_relaxed)};
      if (theirs.bytes == 0) {
        buffers = {};
        return;
      }
      buffers.edges = larger(buffers.edges, edgesOf(theirs, coreOf(data).size()));
      if (published.fresh.load(std::memory_order_relaxed) != 0) all_known = false;
      buffers.of.push_back(theirs);
    }
    for (int m = 0; m < size_; ++m) {
      const PublishedRegion& published = memory_->line(m).region[operations_ % 2];
      all_given = all_given &&
                  published.head.load(std::memory_order_relaxed) >= buffers.edges.head &&
                  published.tail.load(std::memory_order_relaxed) >= buffers.edges.tail;
    }
    buffers.edges_step = step;
  });
  if (!status) return status.error();
  if (buffers.of.empty()) return buffers;
  if (!all_given) {
    if (needed_.size() >= kMostNeeded) needed_.clear();
    needed_[region->at] = buffers.edges;
    status = run(call, 1, 2, [&](std::uint32_t stage, std::size_t, std::uint32_t step) {
      if (stage == 0) giveEdges(data, buffers.edges, step);
      buffers.edges_step = step;
    });
    if (!status) return status.error();
  }
  return all_known ? buffers : mapRegions(std::move(buffers), call);
}

void HostGroup::giveEdges(std::span<std::byte> data, const Edges& edges, std::uint32_t step) {
  const auto [head, tail] = edges;
  give(slot(member_, step), data.data(), head);
  give(slot(member_, step) + 2 * kEdge - tail, data.data() + data.size() - tail, tail);
}

void HostGroup::takeEdges(std::span<std::byte> data, const Call& call, const Buffers& buffers) {
  const auto [head, tail] = buffers.edges;
  sources_.clear();
  for (int m = 0; m < size_; ++m) {
    if (call.kind == Kind::kBroadcast && m != call.root) continue;
    sources_.push_back(slot(m, buffers.edges_step));
  }
  dure::collective::reduce(call.number, call.reduction, data.data(), sources_, head);
  for (const std::byte*& source : sources_) source += 2 * kEdge - tail;
  dure::collective::reduce(call.number, call.reduction, data.data() + data.size() - tail, sources_,
                           tail);
}

void HostGroup::publishRegion(const std::optional<BufferRegion>& region, bool fresh,
                              const Edges& given) {
  MemberLine& line = memory_->line(member_);
  PublishedRegion& published = line.region[operations_ % 2];
  const BufferRegion known = region.value_or(BufferRegion());
  published.begin.store(known.begin, std::memory_order_relaxed);
  published.bytes.store(known.bytes, std::memory_order_relaxed);
  published.at.store(known.at, std::memory_order_relaxed);
  published.fresh.store(fresh ? 1 : 0, std::memory_order_relaxed);
  published.head.store(static_cast<std::uint16_t>(given.head), std::memory_order_relaxed);
  published.tail.store(static_cast<std::uint16_t>(given.tail), std::memory_order_relaxed);
  if (!fresh) return;
  const RegisteredFile file = registeredFile();
  line.file.store(file.descriptor, std::memory_order_relaxed);
  line.inode.store(file.inode, std::memory_order_relaxed);
}

// Some member's memory is new. That a member cannot map it must be known to all of them, and it
// will be the same the next time: then nothing is done in place any more.
Result<HostGroup::Buffers> HostGroup::mapRegions(Buffers buffers, const Call& call) {
  bool mapped = true;
  for (int m = 0; m < size_; ++m) {
    const BufferRegion& region = buffers.of[static_cast<std::size_t>(m)];
    const MemberLine& line = memory_->line(m);
    const RegisteredFile file{line.file.load(std::memory_order_relaxed),
                              line.inode.load(std::memory_order_relaxed)};
    mapped = mapped && (peers_.has(m, region) || peers_.map(m, region, line.pid.load(), file));
  }
  bool all_mapped = true;
  const Status status = run(call, 1, 2, [&](std::uint32_t stage, std::size_t, std::uint32_t) {
    if (stage == 0) {
      publishRegion(std::nullopt, false, {});
      memory_->line(member_).region[operations_ % 2].bytes.store(mapped ? 1 : 0,
                                                                 std::memory_order_relaxed);
      return;
    }
    for (int m = 0; m < size_; ++m) {
      const PublishedRegion& published = memory_->line(m).region[operations_ % 2];
      if (published.bytes.load(std::memory_order_relaxed) == 0) all_mapped = false;
    }
  });
  if (!status) return status.error();
  if (!all_mapped) {
    works_in_place_ = false;
    buffers = {};
  }
  return buffers;
}

std::byte* HostGroup::sharedDataOf(int member, std::span<std::byte> data,
                                   const Buffers& buffers) const {
  if (member == member_) return data.data() + buffers.edges.head;
  const BufferRegion& region = buffers.of[static_cast<std::size_t>(member)];
  return peers_.at(member, region) + (region.at - region.begin) - (kEdge - buffers.edges.head);
}

void HostGroup::reducePart(std::span<std::byte> data, const Call& call, const Buffers& buffers) {
  const Range part = partOf(sharedBytes(data, buffers.edges), member_, size_);
  sources_.clear();
  outs_.clear();
  for (int m = 0; m < size_; ++m) {
    std::byte* at = sharedDataOf(m, data, buffers) + part.offset;
    sources_.push_back(at);
    if (call.givesTo(m)) outs_.push_back(at);
  }
  dure::collective::reduce(call.number, call.reduction, outs_, sources_, part.bytes);
  given_ += static_cast<std::int64_t>(part.bytes * outs_.size());
}

}  // namespace dure::collective
