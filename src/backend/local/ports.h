#pragma once

#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace dure::local {

// Consecutive ports of this machine that one run may use.
struct PortRange {
  int first = 0;
  std::vector<Fd> reservations;  // open while the run may use them
};

// The range that a run of this name would get now: starting at a port that follows from the name,
// the first whose ports are all free and which no other run has reserved. The same question has the
// same answer until something changes, so that `dure env` can print the environment before the run.
// `reserve` also keeps every other run in this network namespace from it, whoever's it is.
// Unavailable if there is none.
Result<PortRange> findPorts(const std::string& name, int count, bool reserve);

}  // namespace dure::local
