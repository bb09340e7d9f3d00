#pragma once

#include <cstddef>
#include <iterator>

#include "gang/launch_strategy.h"

// Every strategy: each is a file of this folder and a line of this table.
namespace dure::gang {

const LaunchStrategy& plainStrategy(const spec::Job& job);
const LaunchStrategy& torchStrategy(const spec::Job& job);
const LaunchStrategy& tensorflowStrategy(const spec::Job& job);
const LaunchStrategy& mpiStrategy(const spec::Job& job);
const LaunchStrategy& horovodStrategy(const spec::Job& job);
const LaunchStrategy& nativeStrategy(const spec::Job& job);

struct LaunchEntry {
  spec::Strategy strategy;
  const LaunchStrategy& (*choose)(const spec::Job& job);
};

// In the order of the enumeration.
inline constexpr LaunchEntry kLaunchStrategies[] = {
    {spec::Strategy::kPlain, plainStrategy},           {spec::Strategy::kTorch, torchStrategy},
    {spec::Strategy::kTensorflow, tensorflowStrategy}, {spec::Strategy::kMpi, mpiStrategy},
    {spec::Strategy::kHorovod, horovodStrategy},       {spec::Strategy::kNative, nativeStrategy},
};

static_assert(
    [] {
      if (std::size(kLaunchStrategies) != std::size(spec::kStrategies)) return false;
      for (std::size_t i = 0; i < std::size(kLaunchStrategies); ++i) {
        if (static_cast<std::size_t>(kLaunchStrategies[i].strategy) != i) return false;
      }
      return true;
    }(),
    "every strategy has a line, in the order of the enumeration");

}  // namespace dure::gang
