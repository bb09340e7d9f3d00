#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dure::spec {

// When the workers of a native job share what they learned.
enum class SyncMode { kStep, kEvery, kEnd };

// What the job file says of a sync mode. What it does is in train/sync_*.cc.
struct SyncRules {
  SyncMode mode;
  std::string_view word;      // of the job file; empty: written as an object, {every: 50}
  std::string_view field;     // that the object must have
  bool resizes = true;        // the job can go on with another number of workers
  bool same_weights = false;  // all workers have the same after every step
};

// In the order of the enumeration.
inline constexpr SyncRules kSyncModes[] = {
    {.mode = SyncMode::kStep, .word = "step", .same_weights = true},
    {.mode = SyncMode::kEvery, .field = "every"},
    {.mode = SyncMode::kEnd, .word = "end", .resizes = false},
};

constexpr const SyncRules& rulesOf(SyncMode mode) {
  return kSyncModes[static_cast<std::size_t>(mode)];
}

static_assert(
    [] {
      for (std::size_t i = 0; i < std::size(kSyncModes); ++i) {
        if (static_cast<std::size_t>(kSyncModes[i].mode) != i) return false;
      }
      return true;
    }(),
    "a mode stands in kSyncModes where it stands in the enumeration");

// The mode that is written as an object.
inline constexpr const SyncRules& kSyncObject =
    *std::find_if(std::begin(kSyncModes), std::end(kSyncModes),
                  [](const SyncRules& r) { return r.word.empty(); });

static_assert(std::count_if(std::begin(kSyncModes), std::end(kSyncModes),
                            [](const SyncRules& r) { return r.word.empty(); }) == 1 &&
                  !kSyncObject.field.empty(),
              "one mode is written as an object, with a field of its own");

// The words of those that have one, in the order of the enumeration.
const std::vector<std::string>& syncWords();
// The mode that the word names, if it names one.
std::optional<SyncMode> syncModeNamed(std::string_view word);

}  // namespace dure::spec
