#pragma once

#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

namespace dure::spec {

// How the processes of a job find each other.
enum class Strategy { kPlain, kTorch, kTensorflow, kMpi, kHorovod, kNative };

// What the job file says of a strategy. How its processes are started is in gang/strategies/.
struct StrategyRules {
  Strategy strategy;
  std::string_view word;        // of the job file
  bool roles = false;           // a chief, parameter servers and an evaluator are allowed
  bool trains = false;          // Dure's trainer runs, as `train` tells it; others run a program
  std::string_view section;     // beside `train`: what no other strategy has
  std::string_view implied_by;  // the field that chooses it where the job names no strategy
};

// In the order of the enumeration; of several that are implied, the last is chosen.
inline constexpr StrategyRules kStrategies[] = {
    {.strategy = Strategy::kPlain, .word = "plain", .roles = true},
    {.strategy = Strategy::kTorch, .word = "torch"},
    {.strategy = Strategy::kTensorflow,
     .word = "tensorflow",
     .roles = true,
     .implied_by = "script"},
    {.strategy = Strategy::kMpi, .word = "mpi"},
    {.strategy = Strategy::kHorovod, .word = "horovod", .section = "horovod"},
    {.strategy = Strategy::kNative, .word = "native", .trains = true, .implied_by = "train"},
};

constexpr const StrategyRules& rulesOf(Strategy strategy) {
  return kStrategies[static_cast<std::size_t>(strategy)];
}

static_assert(
    [] {
      for (std::size_t i = 0; i < std::size(kStrategies); ++i) {
        if (static_cast<std::size_t>(kStrategies[i].strategy) != i) return false;
      }
      return true;
    }(),
    "a strategy stands in kStrategies where it stands in the enumeration");

// "torch", "tensorflow", …: the word of the job file.
std::string strategyName(Strategy strategy);
// All of them, in the order of the enumeration.
const std::vector<std::string>& strategyWords();
// The words of those that have the trait, the plain one last: "tensorflow and plain".
std::string strategiesWith(bool StrategyRules::*trait);

}  // namespace dure::spec
