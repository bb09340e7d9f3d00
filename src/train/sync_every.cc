#include "train/sync_policy.h"

namespace dure::train {
namespace {

// Local SGD; with an outer step, DiLoCo.
class EverySteps : public SyncPolicy {
 public:
  explicit EverySteps(const spec::Sync& sync) : sync_(sync) {}

  bool averagesAfter(std::int64_t done, bool epoch_over) const override {
    return epoch_over || done % sync_.every == 0;
  }
  bool isConsistentAfter(std::int64_t done, bool epoch_over) const override {
    return averagesAfter(done, epoch_over);
  }
  bool makesOuterSteps() const override { return sync_.momentum > 0 || sync_.lr != 1; }

 private:
  const spec::Sync sync_;
};

}  // namespace

std::unique_ptr<SyncPolicy> syncEverySteps(const spec::Sync& sync) {
  return std::make_unique<EverySteps>(sync);
}

}  // namespace dure::train
