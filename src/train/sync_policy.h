#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>

#include "spec/job.h"

namespace dure::train {

// What the workers share, and when: one class per sync mode, in sync_*.cc. It holds no weights and
// calls nobody; its callers know whether there are several workers. A policy that overrides nothing
// shares nothing.
class SyncPolicy {
 public:
  virtual ~SyncPolicy() = default;

  // The workers all-reduce gradients in every step.
  virtual bool sharesGradients() const { return false; }
  // The workers average their weights after `done` steps, or at the end of an epoch.
  virtual bool averagesAfter(std::int64_t done, bool epoch_over) const;
  // All workers have the same weights then.
  virtual bool isConsistentAfter(std::int64_t done, bool epoch_over) const;
  // One-shot averaging: workers have weights of their own until the end, and average them once.
  virtual bool averagesOnce() const { return false; }
  // An average is a gradient for an outer optimizer, which has momentum.
  virtual bool makesOuterSteps() const { return false; }
};

// Every mode: each is a file of this folder and a line of this table.
std::unique_ptr<SyncPolicy> syncEachStep(const spec::Sync& sync);
std::unique_ptr<SyncPolicy> syncEverySteps(const spec::Sync& sync);
std::unique_ptr<SyncPolicy> syncAtEnd(const spec::Sync& sync);

struct SyncEntry {
  spec::SyncMode mode;
  std::unique_ptr<SyncPolicy> (*make)(const spec::Sync& sync);
};

// In the order of the enumeration.
inline constexpr SyncEntry kSyncPolicies[] = {
    {spec::SyncMode::kStep, syncEachStep},
    {spec::SyncMode::kEvery, syncEverySteps},
    {spec::SyncMode::kEnd, syncAtEnd},
};

static_assert(
    [] {
      if (std::size(kSyncPolicies) != std::size(spec::kSyncModes)) return false;
      for (std::size_t i = 0; i < std::size(kSyncPolicies); ++i) {
        if (static_cast<std::size_t>(kSyncPolicies[i].mode) != i) return false;
      }
      return true;
    }(),
    "every sync mode has a line, in the order of the enumeration");

std::unique_ptr<SyncPolicy> makeSyncPolicy(const spec::Sync& sync);

}  // namespace dure::train
