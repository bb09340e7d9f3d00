#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "collective/host_group.h"
#include "group/group.h"
#include "group/leaders.h"

namespace dure::group {

// Which ranks share a host, and which host this one is on.
struct Topology {
  int rank = 0;
  std::vector<std::vector<int>> hosts;  // their ranks, in order; hosts are in order of their first

  int size() const;
  int hostOf(int of_rank) const;
  int memberOf(int of_rank) const;  // its number within its host
};

// The group there is: within the host through shared memory, between the hosts through their first
// ranks, the leaders.
class TwoLevelGroup : public Group {
 public:
  // `leaders` only in a leader, and only if there are several hosts.
  TwoLevelGroup(Topology topology, std::unique_ptr<collective::HostGroup> host,
                std::unique_ptr<Leaders> leaders, Compression compression);

  Status allReduce(std::span<float> data, int stream) override;
  Status allReduce(std::span<double> data) override;
  Status allReduce(std::span<std::int64_t> data) override;
  Status broadcast(std::span<std::byte> data, int root) override;
  Status allGather(std::span<const std::byte> mine, std::span<std::byte> all) override;
  Status barrier() override;
  std::unique_ptr<collective::RegisteredMemory> registerBuffer(std::span<float> data) override;
  // Whether registering can gain anything: other ranks are on this host.
  bool hasNeighbours() const { return host_->size() > 1; }

  // Every member's `data` becomes the reduction of all. Only sums of 32-bit floats with a stream
  // are compressed between hosts.
  Status allReduce(std::span<std::byte> data, collective::Number number,
                   collective::Reduction reduction, std::optional<int> stream = std::nullopt);
  // Of these, the one of every member that stands for it: only within one host.
  Status reduceScatter(std::span<const std::byte> all, std::span<std::byte> mine,
                       collective::Number number, collective::Reduction reduction);

  Traffic traffic() const override;
  std::string residuals() const override;
  // Ignored in a process that has no residuals: a run may go on with other hosts.
  Status restoreResiduals(std::string_view bytes) override;
  // Drops the residual of a stream.
  void forget(int stream) { residuals_.erase(stream); }

 private:
  template <typename Body>
  Status operate(const Body& body);
  Status reduceOverHosts(std::span<std::byte> data, collective::Number number,
                         collective::Reduction reduction, std::optional<int> stream);
  std::unique_ptr<Leaders::Reducing> reducing(std::span<std::byte> piece, std::size_t offset,
                                              collective::Number number,
                                              collective::Reduction reduction, Residual* residual);
  Residual& residualOf(int stream, std::size_t count);
  Status broadcastOverHosts(std::span<std::byte> data, int root);
  Status allGatherOverHosts(std::span<const std::byte> mine, std::span<std::byte> all);
  bool isLeader() const { return host_->member() == 0; }

  const Topology topology_;
  const Compression compression_;
  std::unique_ptr<collective::HostGroup> host_;
  std::unique_ptr<Leaders> leaders_;
  std::optional<Error> failed_;
  Residuals residuals_;
  std::int64_t sent_ = 0;
  std::int64_t operations_ = 0;
  std::chrono::nanoseconds waited_{0};
};

}  // namespace dure::group
