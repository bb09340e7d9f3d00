#include <optional>
#include <utility>

#include "collective/host_group_steps.h"
#include "collective/reduce.h"

// Large data may lie in memory that all members can be let into. They tell each other where, and if
// all have such a place, each works on its part of everyone's memory. Before that all have entered
// the operation, after it all have told that they are done: nobody writes to another's memory at
// any other time. Adopted memory is whole pages, so up to a page at either end of a member's data
// may lie outside: what does in any member goes through the slots.
namespace dure::collective {
namespace {

// From here on it is worth asking whether the data can stay where it is: with less the edges cost
// as much as the copies.
constexpr std::size_t kInPlace = 64u << 10u;
// As much at either end of the data may lie outside of adopted memory.
constexpr std::size_t kEdge = 4096;
// Of so many places it is remembered how much of their ends is needed.
constexpr std::size_t kMostNeeded = 4096;

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
  const auto places = exchangePlaces(data, call);
  if (places && places->of.empty()) return false;
  Status status = places ? run(call, 1, 2,
                               [&](std::uint32_t stage, std::size_t, std::uint32_t) {
                                 if (stage == 0) workInPlace(data, call, *places);
                               })
                         : Status(places.error());
  if (!status) {
    takeBack(coreOf(data));
    return status.error();
  }
  ++in_place_;
  return true;
}

void HostGroup::workInPlace(std::span<std::byte> data, const Call& call, const Places& places) {
  if (call.kind != Kind::kBroadcast) {
    reducePart(data, call, places);
  } else if (member_ != call.root) {
    copyBytes(data.data() + places.edges.head, sharedDataOf(call.root, data, places),
              sharedBytes(data, places.edges));
  }
  if (call.givesTo(member_)) takeEdges(data, call, places);
}

// What of a member's data may lie outside is copied along with the telling, so that it is known one
// waiting earlier: as much as lies outside here, and as was needed the last time.
Result<HostGroup::Places> HostGroup::exchangePlaces(std::span<std::byte> data, const Call& call) {
  const auto place = findAdopted(coreOf(data));
  Edges given;
  if (place) {
    const Edges needed = needed_.contains(place->at) ? needed_.at(place->at) : Edges{};
    given = larger(edgesOf(*place, coreOf(data).size()), needed);
  }
  Places places;
  bool all_known = true;
  bool all_given = true;
  Status status = run(call, 1, 2, [&](std::uint32_t stage, std::size_t, std::uint32_t step) {
    if (stage == 0) {
      tellPlace(place, place && !peers_.has(member_, *place), given);
      giveEdges(data, given, step);
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
      places.edges = larger(places.edges, edgesOf(theirs, coreOf(data).size()));
      if (told.fresh.load(std::memory_order_relaxed) != 0) all_known = false;
      places.of.push_back(theirs);
    }
    for (int m = 0; m < size_; ++m) {
      const SharedPlace& told = memory_->line(m).place[operations_ % 2];
      all_given = all_given && told.head.load(std::memory_order_relaxed) >= places.edges.head &&
                  told.tail.load(std::memory_order_relaxed) >= places.edges.tail;
    }
    places.edges_step = step;
  });
  if (!status) return status.error();
  if (places.of.empty()) return places;
  if (!all_given) {
    if (needed_.size() >= kMostNeeded) needed_.clear();
    needed_[place->at] = places.edges;
    status = run(call, 1, 2, [&](std::uint32_t stage, std::size_t, std::uint32_t step) {
      if (stage == 0) giveEdges(data, places.edges, step);
      places.edges_step = step;
    });
    if (!status) return status.error();
  }
  return all_known ? places : mapPlaces(std::move(places), call);
}

void HostGroup::giveEdges(std::span<std::byte> data, const Edges& edges, std::uint32_t step) {
  const auto [head, tail] = edges;
  give(slot(member_, step), data.data(), head);
  give(slot(member_, step) + 2 * kEdge - tail, data.data() + data.size() - tail, tail);
}

void HostGroup::takeEdges(std::span<std::byte> data, const Call& call, const Places& places) {
  const auto [head, tail] = places.edges;
  sources_.clear();
  for (int m = 0; m < size_; ++m) {
    if (call.kind == Kind::kBroadcast && m != call.root) continue;
    sources_.push_back(slot(m, places.edges_step));
  }
  dure::collective::reduce(call.number, call.reduction, data.data(), sources_, head);
  for (const std::byte*& source : sources_) source += 2 * kEdge - tail;
  dure::collective::reduce(call.number, call.reduction, data.data() + data.size() - tail, sources_,
                           tail);
}

void HostGroup::tellPlace(const std::optional<AdoptedPlace>& place, bool fresh,
                          const Edges& given) {
  MemberLine& line = memory_->line(member_);
  SharedPlace& told = line.place[operations_ % 2];
  const AdoptedPlace known = place.value_or(AdoptedPlace());
  told.begin.store(known.begin, std::memory_order_relaxed);
  told.bytes.store(known.bytes, std::memory_order_relaxed);
  told.at.store(known.at, std::memory_order_relaxed);
  told.fresh.store(fresh ? 1 : 0, std::memory_order_relaxed);
  told.head.store(static_cast<std::uint16_t>(given.head), std::memory_order_relaxed);
  told.tail.store(static_cast<std::uint16_t>(given.tail), std::memory_order_relaxed);
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
      tellPlace(std::nullopt, false, {});
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

std::byte* HostGroup::sharedDataOf(int member, std::span<std::byte> data,
                                   const Places& places) const {
  if (member == member_) return data.data() + places.edges.head;
  const AdoptedPlace& place = places.of[static_cast<std::size_t>(member)];
  return peers_.at(member, place) + (place.at - place.begin) - (kEdge - places.edges.head);
}

void HostGroup::reducePart(std::span<std::byte> data, const Call& call, const Places& places) {
  const Range part = partOf(sharedBytes(data, places.edges), member_, size_);
  sources_.clear();
  outs_.clear();
  for (int m = 0; m < size_; ++m) {
    std::byte* at = sharedDataOf(m, data, places) + part.offset;
    sources_.push_back(at);
    if (call.givesTo(m)) outs_.push_back(at);
  }
  dure::collective::reduce(call.number, call.reduction, outs_, sources_, part.bytes);
  given_ += static_cast<std::int64_t>(part.bytes * outs_.size());
}

}  // namespace dure::collective
