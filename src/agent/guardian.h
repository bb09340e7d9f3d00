#pragma once

#include <iosfwd>

namespace dure::agent {

// The last line of defence of a task on one machine: the parent of its agent, which adopts what an
// agent that was killed leaves behind and kills it. `dure run` does so too as long as it lives; the
// guardian does it when both were killed. It also ends the task if `dure run` is dead and the agent
// does not notice.
//
// It takes a name of its own, so that who kills every dure-agent does not kill it, and takes the
// secret out of its environment. Starts the agent with this program and the environment it has
// itself, and returns its exit code when nothing of the task is left. To be called first in main().
int guardTask(char** argv, std::ostream& errors);

}  // namespace dure::agent
