#pragma once

#include <functional>
#include <optional>
#include <string>

#include "cli/command.h"
#include "gang/roster.h"
#include "gang/site.h"
#include "spec/job.h"

namespace dure::cli {

// The agent program: it lies beside this one.
std::string agentProgram();

// The site that the next run of a job would have, and its layout.
struct Outlook {
  gang::Site site;
  gang::Layout layout;
};

// What the ranks of a run with this identity would see on this machine. Nothing starts.
Result<Outlook> surveyLocal(const runs::RunStore& store, const spec::Job& job,
                            const runs::RunId& id);

struct LocalRunOptions {
  bool detach = false;
  bool ad_hoc = false;  // nobody chose the name, so it may be changed if it is in use
};

// Runs a job on this machine to its end (or, detached, until it has begun), and returns the exit
// code.
int runLocal(Context& context, runs::RunStore& store, spec::Job job,
             const LocalRunOptions& options);

// Goes on with a run whose coordinator died: the next generation, the counts kept.
int resumeLocal(Context& context, runs::RunStore& store, const std::string& name, bool detach);

}  // namespace dure::cli
