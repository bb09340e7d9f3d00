#pragma once

// For tests that change what cannot be changed back: descriptors, signals, who adopts orphans.

#include <sys/wait.h>
#include <unistd.h>

#include <functional>

namespace dure {

// Runs `check` in a process of its own; what it returns, by convention the number of the step that
// failed, or 128 + the signal that ended it.
inline int inAProcessOfItsOwn(const std::function<int()>& check) {
  const pid_t pid = fork();
  if (pid == 0) _exit(check());
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace dure
