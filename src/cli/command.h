#pragma once

#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "runs/run_store.h"

namespace CLI {
class App;
}

namespace dure::cli {

// Documented in docs/command-line.md; people write scripts against them.
inline constexpr int kDone = 0;
inline constexpr int kJobFailed = 1;
inline constexpr int kMistake = 2;
inline constexpr int kInfrastructureFailed = 3;
inline constexpr int kInterrupted = 130;

// What every command has. A command sets `code`.
struct Context {
  std::ostream& out;
  std::ostream& err;
  std::vector<std::string> program;  // what stands behind "--"
  bool has_program = false;
  std::vector<std::string> arguments;  // as given, behind the command's name
  int code = kDone;

  // Prints the sentence and chooses the exit code by what kind of failure it is.
  void fail(const Error& error);
  void mistake(const std::string& sentence);
};

// An argument of this name is a run: shells complete it with the names of runs.
inline constexpr const char* kRunArgument = "run";

// The runs of this person; fails the command if there is no directory for them.
std::optional<runs::RunStore> openStore(Context& context);

}  // namespace dure::cli
