#include "group/two_level_group.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <utility>

namespace dure::group {
namespace {

// Between hosts data goes in such pieces, so that one is reduced within the hosts while others are
// under way.
constexpr std::size_t kPiece = 4u << 20u;

std::span<std::byte> pieceAt(std::span<std::byte> data, std::size_t piece) {
  const std::size_t offset = piece * kPiece;
  return data.subspan(offset, std::min(kPiece, data.size() - offset));
}

}  // namespace

int Topology::size() const {
  std::size_t count = 0;
  for (const auto& ranks : hosts) count += ranks.size();
  return static_cast<int>(count);
}

int Topology::hostOf(int of_rank) const {
  const auto host = std::find_if(hosts.begin(), hosts.end(), [&](const auto& ranks) {
    return std::find(ranks.begin(), ranks.end(), of_rank) != ranks.end();
  });
  return static_cast<int>(host - hosts.begin());
}

int Topology::memberOf(int of_rank) const {
  const auto& ranks = hosts[static_cast<std::size_t>(hostOf(of_rank))];
  return static_cast<int>(std::find(ranks.begin(), ranks.end(), of_rank) - ranks.begin());
}

TwoLevelGroup::TwoLevelGroup(Topology topology, std::unique_ptr<collective::HostGroup> host,
                             std::unique_ptr<Leaders> leaders, Compression compression)
    : topology_(std::move(topology)),
      compression_(compression),
      host_(std::move(host)),
      leaders_(std::move(leaders)) {
  rank_ = topology_.rank;
  size_ = topology_.size();
  hosts_ = static_cast<int>(topology_.hosts.size());
}

template <typename Body>
Status TwoLevelGroup::operate(const Body& body) {
  if (failed_) return *failed_;
  const auto began = std::chrono::steady_clock::now();
  Status status = body();
  waited_ += std::chrono::steady_clock::now() - began;
  ++operations_;
  if (!status) {
    failed_ = status.error();
    // So that nobody waits for this one: neither on this host nor, by the closed connections, on
    // the others.
    host_->fail(*failed_);
    if (leaders_) sent_ = leaders_->bytesSent();
    leaders_.reset();
  }
  return status;
}

Status TwoLevelGroup::allReduce(std::span<float> data, int stream) {
  return allReduce(std::as_writable_bytes(data), collective::Number::kFloat32,
                   collective::Reduction::kSum, stream);
}

Status TwoLevelGroup::allReduce(std::span<double> data) {
  return allReduce(std::as_writable_bytes(data), collective::Number::kFloat64,
                   collective::Reduction::kSum);
}

Status TwoLevelGroup::allReduce(std::span<std::int64_t> data) {
  return allReduce(std::as_writable_bytes(data), collective::Number::kInt64,
                   collective::Reduction::kSum);
}

Status TwoLevelGroup::allReduce(std::span<std::byte> data, collective::Number number,
                                collective::Reduction reduction, std::optional<int> stream) {
  return operate([&] {
    return hosts_ == 1 ? host_->allReduce(data, number, reduction)
                       : reduceOverHosts(data, number, reduction, stream);
  });
}

Status TwoLevelGroup::reduceScatter(std::span<const std::byte> all, std::span<std::byte> mine,
                                    collective::Number number, collective::Reduction reduction) {
  return operate([&] { return host_->reduceScatter(all, mine, number, reduction); });
}

// Three pieces are under way at a time: one is reduced within the host and sent, one has arrived
// and its reduced part is sent, one is complete and goes to the members.
Status TwoLevelGroup::reduceOverHosts(std::span<std::byte> data, collective::Number number,
                                      collective::Reduction reduction, std::optional<int> stream) {
  const bool compresses = stream && compression_ != Compression::kNone &&
                          number == collective::Number::kFloat32 &&
                          reduction == collective::Reduction::kSum;
  Residual* residual =
      compresses && leaders_ ? &residualOf(*stream, data.size() / sizeof(float)) : nullptr;
  const std::size_t pieces = std::max<std::size_t>(1, (data.size() + kPiece - 1) / kPiece);
  std::deque<std::unique_ptr<Leaders::Reducing>> under_way;
  for (std::size_t i = 0; i < pieces + 2; ++i) {
    if (i < pieces) {
      const auto piece = pieceAt(data, i);
      if (auto status = host_->reduce(piece, number, reduction, 0); !status) return status;
      if (leaders_) {
        under_way.push_back(reducing(piece, i * kPiece, number, reduction, residual));
        if (auto status = under_way.back()->begin(); !status) return status;
      }
    }
    if (leaders_ && i >= 1 && i - 1 < pieces) {
      auto& arriving = under_way[under_way.size() - (i < pieces ? 2 : 1)];
      if (auto status = arriving->proceed(); !status) return status;
    }
    if (i < 2) continue;
    if (leaders_) {
      if (auto status = under_way.front()->finish(); !status) return status;
      under_way.pop_front();
    }
    if (auto status = host_->broadcast(pieceAt(data, i - 2), 0); !status) return status;
  }
  return {};
}

std::unique_ptr<Leaders::Reducing> TwoLevelGroup::reducing(std::span<std::byte> piece,
                                                           std::size_t offset,
                                                           collective::Number number,
                                                           collective::Reduction reduction,
                                                           Residual* residual) {
  if (!residual) return leaders_->reduce(piece, number, reduction);
  const std::span<float> floats(reinterpret_cast<float*>(piece.data()),
                                piece.size() / sizeof(float));
  const std::size_t reduced_before =
      offset / kPiece * leaders_->reducedSize(kPiece / sizeof(float));
  return leaders_->reduceCompressed(
      floats, std::span(residual->own).subspan(offset / sizeof(float), floats.size()),
      std::span(residual->reduced).subspan(reduced_before, leaders_->reducedSize(floats.size())));
}

Residual& TwoLevelGroup::residualOf(int stream, std::size_t count) {
  Residual& residual = residuals_[stream];
  constexpr std::size_t kPieceCount = kPiece / sizeof(float);
  const std::size_t reduced = count / kPieceCount * leaders_->reducedSize(kPieceCount) +
                              leaders_->reducedSize(count % kPieceCount);
  // A residual of another size is of no use.
  if (residual.own.size() != count || residual.reduced.size() != reduced) {
    residual.own.assign(count, 0.0F);
    residual.reduced.assign(reduced, 0.0F);
  }
  return residual;
}

Status TwoLevelGroup::broadcast(std::span<std::byte> data, int root) {
  return operate([&] {
    return hosts_ == 1 ? host_->broadcast(data, topology_.memberOf(root))
                       : broadcastOverHosts(data, root);
  });
}

Status TwoLevelGroup::broadcastOverHosts(std::span<std::byte> data, int root) {
  const int root_host = topology_.hostOf(root);
  const bool is_here = topology_.hostOf(rank_) == root_host;
  if (is_here) {
    if (auto status = host_->broadcast(data, topology_.memberOf(root)); !status) return status;
  }
  if (leaders_) {
    if (auto status = leaders_->broadcast(data, root_host); !status) return status;
  }
  return is_here ? Status() : host_->broadcast(data, 0);
}

Status TwoLevelGroup::allGather(std::span<const std::byte> mine, std::span<std::byte> all) {
  return operate(
      [&] { return hosts_ == 1 ? host_->allGather(mine, all) : allGatherOverHosts(mine, all); });
}

Status TwoLevelGroup::allGatherOverHosts(std::span<const std::byte> mine,
                                         std::span<std::byte> all) {
  std::size_t most = 0;
  for (const auto& ranks : topology_.hosts) most = std::max(most, ranks.size());
  // The hosts' parts one after the other, each as long as that of the largest host.
  const std::size_t part = most * mine.size();
  std::vector<std::byte> parts(part * topology_.hosts.size());
  const auto here = static_cast<std::size_t>(topology_.hostOf(rank_));
  const auto own =
      std::span(parts).subspan(here * part, topology_.hosts[here].size() * mine.size());
  if (auto status = host_->allGather(mine, own); !status) return status;
  if (leaders_) {
    if (auto status = leaders_->allGather(parts, part); !status) return status;
  }
  if (auto status = host_->broadcast(parts, 0); !status) return status;
  for (int rank = 0; rank < size_ && !mine.empty(); ++rank) {
    const std::size_t from = static_cast<std::size_t>(topology_.hostOf(rank)) * part +
                             static_cast<std::size_t>(topology_.memberOf(rank)) * mine.size();
    std::memcpy(all.data() + static_cast<std::size_t>(rank) * mine.size(), parts.data() + from,
                mine.size());
  }
  return {};
}

Status TwoLevelGroup::barrier() {
  return operate([&] {
    Status status = host_->barrier();
    if (hosts_ == 1 || !status) return status;
    if (leaders_) status = leaders_->barrier();
    return status ? host_->barrier() : status;
  });
}

std::unique_ptr<collective::RegisteredMemory> TwoLevelGroup::registerBuffer(std::span<float> data) {
  if (!hasNeighbours()) return nullptr;
  auto registered = collective::RegisteredMemory::registerRange(std::as_writable_bytes(data));
  return registered ? std::move(*registered) : nullptr;
}

Traffic TwoLevelGroup::traffic() const {
  return {.network_bytes = leaders_ ? leaders_->bytesSent() : sent_,
          .memory_bytes = host_->bytesGiven(),
          .operations = operations_,
          .in_place = host_->doneInPlace(),
          .waited = std::chrono::duration_cast<Duration>(waited_)};
}

std::string TwoLevelGroup::residuals() const { return writeResiduals(residuals_); }

Status TwoLevelGroup::restoreResiduals(std::string_view bytes) {
  auto residuals = readResiduals(bytes);
  if (!residuals) return std::move(residuals).error();
  if (leaders_ && compression_ != Compression::kNone) residuals_ = std::move(*residuals);
  return {};
}

}  // namespace dure::group
