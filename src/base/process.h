#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/result.h"

namespace dure {

struct SpawnOptions {
  std::vector<std::string> argv;
  std::vector<std::string> env;  // "KEY=VALUE", all of it: nothing is inherited
  std::string workdir;           // empty: the caller's
  int in = -1;                   // descriptors that become 0, 1 and 2; -1: the caller's own
  int out = -1;
  int err = -1;
  // Sent to the child when the calling thread ends; 0: nothing. Gone once the child clears it.
  int death_signal = 0;
  bool new_session = false;  // otherwise a process group of its own
  int network = -1;          // a network namespace to enter, as opened under /run/netns
};

// Starts a program and returns when it has been replaced by it, so an error is the real one: the
// program was not found, is not executable, or its working directory is missing. A file without
// an interpreter line is given to /bin/sh, as a shell would. Call it from a thread that lives as
// long as the child may.
Result<pid_t> spawn(const SpawnOptions& options);

// Where `program` would be found: as it is if it has a slash, else along PATH of `env`.
Result<std::string> findProgram(const std::string& program, const std::vector<std::string>& env);

// Lets this process have as many descriptors as the system allows it. What spawn() starts still has
// the limit that this process was started with: programs that use select() rely on it.
void raiseDescriptorLimit();

// The environment of this process as "KEY=VALUE".
std::vector<std::string> currentEnvironment();

// How a process ended.
struct ExitStatus {
  int code = 0;    // meaningful if signal is 0
  int signal = 0;  // that killed it
  bool ok() const { return code == 0 && signal == 0; }
  bool operator==(const ExitStatus&) const = default;
};
ExitStatus decodeWaitStatus(int wait_status);
// "exited with 1", "was killed by SIGSEGV".
std::string describeExit(const ExitStatus& status);

// 256 random bits in hexadecimal.
std::string randomToken();

}  // namespace dure
