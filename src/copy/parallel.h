#pragma once

#include <cstddef>
#include <functional>

#include "base/result.h"

namespace dure::copy {

// How many threads work on files at once: the processors there are, four at most.
std::size_t threadCount();

// Calls `work` with 0 … count-1, in several threads, and returns when all calls have; nothing new
// is begun after a failure. Of several failures that with the smallest number.
Status forEachInParallel(std::size_t count, const std::function<Status(std::size_t)>& work);

}  // namespace dure::copy
