#pragma once

#include <string>

#include "protocol/protocol.h"

// Why a process failed, as far as its exit status and its final output tell.
namespace dure::gang {

// The line that explains the failure, or nothing: of standard error the exception that was raised
// last, what mpirun says of the rank that failed, a failed assertion; else the first line that
// tells of an error, else the last one. Standard output counts only where it tells of an exception
// itself, as a program does whose errors go there too.
std::string explainingLine(const protocol::Exited& exit);

// Of several ranks that fail together one is the cause. What kills a rank like a signal that nobody
// here sent does not follow from another's death; a lost connection mostly does. The smaller, the
// likelier.
int likelyCause(const protocol::Exited& exit);

// True if the program would fail so as often as it is started: a module or a command that is not
// there, a mistake in the language, arguments that it refuses.
bool wouldFailAgain(const protocol::Exited& exit);

// The sentence that says how a process failed: "rank 3 (worker-3) exited with 1 in generation 2,
// after 41 s: RuntimeError: …".
std::string failureSentence(const std::string& who, const protocol::Exited& exit, int generation);

}  // namespace dure::gang
