#pragma once

#include <string>

#include "launch/protocol.h"

// Why a process failed, as far as its end and its last words tell.
namespace dure {

// Of several ranks that fail together one is the cause. What kills a rank like a signal that nobody
// here sent does not follow from another's death; a lost connection mostly does. The smaller, the
// likelier.
int likelyCause(const Exited& exit);

// The sentence that says how a process failed: "rank 3 (worker-3) exited with 1 in generation 2,
// after 41 s: RuntimeError: …".
std::string failureSentence(const std::string& who, const Exited& exit, int generation);

}  // namespace dure
