#pragma once

#include <string>

// What programs print before they fail, as interpreters, shells, compilers' libraries and mpirun
// write it. Pure functions over text; all return nothing where there is nothing of the kind.
namespace dure::gang {

// The exception that was raised last: "ValueError: bad thing". Not the one by which torchrun tells
// that a process of its own has failed.
std::string lastException(const std::string& text);
// The name alone: "torch.cuda.OutOfMemoryError".
std::string exceptionName(const std::string& line);

// What mpirun says of the rank that failed, or of a program that it could not start.
std::string mpiFailure(const std::string& text);
// Which rank of its own mpirun says to have failed first: "MPI rank 2".
std::string mpiRank(const std::string& text);

// An exception that nobody caught, or an assertion, of a C++ program.
std::string abortReason(const std::string& text);

// The first line that tells of an error, those of lost connections last.
std::string firstComplaint(const std::string& text);
// The last line that has words.
std::string lastLine(const std::string& text);

bool tellsOfLostConnection(const std::string& line);

}  // namespace dure::gang
