#include "train/sync_policy.h"

namespace dure::train {

bool SyncPolicy::averagesAfter(std::int64_t /*done*/, bool /*epoch_over*/) const { return false; }

bool SyncPolicy::isConsistentAfter(std::int64_t /*done*/, bool /*epoch_over*/) const {
  return false;
}

std::unique_ptr<SyncPolicy> makeSyncPolicy(const spec::Sync& sync) {
  return kSyncPolicies[static_cast<std::size_t>(sync.mode)].make(sync);
}

}  // namespace dure::train
