#include "train/sync_policy.h"

namespace dure::train {
namespace {

// One-shot averaging: local SGD with a single average, at the end.
class AtEnd : public SyncPolicy {
 public:
  bool averagesOnce() const override { return true; }
};

}  // namespace

std::unique_ptr<SyncPolicy> syncAtEnd(const spec::Sync& /*sync*/) {
  return std::make_unique<AtEnd>();
}

}  // namespace dure::train
