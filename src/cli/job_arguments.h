#pragma once

#include <string>
#include <vector>

#include "cli/command.h"
#include "spec/job.h"
#include "spec/load.h"

namespace dure::cli {

// The options of run, check, env and plan that say which job is meant: a file, or options and a
// program behind "--".
struct JobArguments {
  std::string file;
  std::vector<std::string> sets;
  std::string name;
  std::string workers;
  std::string strategy;
  std::string processes;
  std::vector<std::string> env;
  std::vector<spec::Override> others;  // of a command's own options

  void addTo(CLI::App& command);
  spec::Loaded load(const Context& context) const;
  bool adHoc() const { return file.empty(); }
};

// Prints every problem, and sets the exit code if there is one. True if there is none.
bool reportProblems(Context& context, const spec::Loaded& loaded);

}  // namespace dure::cli
