#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/result.h"

namespace dure::local {

// Consecutive ports of this machine that one run may use.
struct PortRange {
  int first = 0;
  std::vector<FileLock> locks;  // held while the run may use them
};

// The range that a run of this name would get now: starting at a place that follows from the name,
// the first whose ports are all free and which no other run has reserved. The same question has the
// same answer until something changes, so that the environment can be told before the run.
// `reserve` also keeps others from it. Unavailable if there is none.
Result<PortRange> findPorts(const std::string& directory, const std::string& name, int count,
                            bool reserve);

}  // namespace dure::local
