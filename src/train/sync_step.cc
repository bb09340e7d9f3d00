#include "train/sync_policy.h"

namespace dure::train {
namespace {

// Synchronous SGD: workers never differ.
class EachStep : public SyncPolicy {
 public:
  bool sharesGradients() const override { return true; }
  bool isConsistentAfter(std::int64_t /*done*/, bool /*epoch_over*/) const override { return true; }
};

}  // namespace

std::unique_ptr<SyncPolicy> syncEachStep(const spec::Sync& /*sync*/) {
  return std::make_unique<EachStep>();
}

}  // namespace dure::train
