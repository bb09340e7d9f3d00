#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "pipeline/pipeline.h"
#include "spec/problem.h"

namespace dure::pipeline {

// Where the parts of one run of a pipeline find each other's output.
struct Folders {
  std::string run;      // the run's name
  std::string volume;   // the shared directory; a part's output is in its folder there
  std::string out;      // what a part writes to until it has succeeded
  std::string scratch;  // what it may keep from one attempt to the next
  std::string reports;  // what jobs have reported last: PART.json
};

// The same in every run: for checks and for keys.
Folders symbolicFolders();

// What runs for a part: a job in each case, of one task for a command or a service. Mistakes in an
// inline job are added to `findings`, with paths inside of it; those in a job file to `problems`.
spec::Job jobOf(const Pipeline& pipeline, const Part& part, const Folders& folders,
                std::vector<spec::Finding>& findings, std::vector<spec::Problem>& problems);
// The same where the pipeline has been checked: Invalid, in one sentence, if a job file has been
// changed since.
Result<spec::Job> jobOf(const Pipeline& pipeline, const Part& part, const Folders& folders);

// The declared inputs of a part, and what its native training reads; absolute paths, without what
// other steps have made.
std::vector<std::string> inputsOf(const Pipeline& pipeline, const Part& part,
                                  const Folders& folders);

}  // namespace dure::pipeline
