#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "group/two_level_group.h"

namespace dure::group {

// A text as a store takes it.
inline std::vector<std::uint8_t> storeBytes(const std::string& text) {
  return {text.begin(), text.end()};
}

struct StoreJoin {
  c10::intrusive_ptr<c10d::Store> store;  // of this group only, or with a prefix of its own
  int rank = 0;
  int size = 1;
  std::string address;  // where rank 0 can be reached; empty: not known
  std::string host;     // what tells this host from others; empty: hostIdentity()
  Compression compression = Compression::kNone;
  Duration timeout{300'000};  // of the joining
  Duration wait{0};           // of every later wait; 0: the same
};

// Finds out through the store who shares a host, and waits until all members have come. The store
// is not used afterwards.
Result<std::unique_ptr<TwoLevelGroup>> joinThroughStore(const StoreJoin& join);

// The topology of ranks whose hosts have these identities, one for each rank.
Topology topologyOf(int rank, const std::vector<std::string>& host_of_rank);

}  // namespace dure::group
