#include "gang/blame.h"

#include <signal.h>

#include <algorithm>
#include <array>

#include <fmt/core.h>

#include "base/rank_names.h"
#include "base/text.h"
#include "gang/final_output.h"

namespace dure::gang {
namespace {

constexpr int kNotExecutable = 126;
constexpr int kCommandNotFound = 127;
constexpr int kUsage = 2;

// The trainer says what it warns of as it goes, and last why it ends.
std::string trainersReason(const std::string& text) {
  std::string found;
  for (const std::string& line : split(text, '\n')) {
    if (line.starts_with(kTrainerPrefix)) found = line;
  }
  return found;
}

// What an interpreter, a library or mpirun wrote to tell why the program ends.
std::string formalReason(const std::string& text) {
  const std::string rank = mpiRank(text);
  const std::string who = rank.empty() ? "" : rank + ": ";
  if (const std::string line = lastException(text); !line.empty()) return who + line;
  if (const std::string line = abortReason(text); !line.empty()) return who + line;
  return mpiFailure(text);
}

std::string choose(const protocol::Exited& exit) {
  if (std::string line = formalReason(exit.errors); !line.empty()) return line;
  if (std::string line = trainersReason(exit.errors); !line.empty()) return line;
  if (std::string line = firstComplaint(exit.errors); !line.empty()) return line;
  if (std::string line = formalReason(exit.tail); !line.empty()) return line;
  // Nobody who is killed has said why.
  return exit.status.signal != 0 ? "" : lastLine(exit.errors);
}

}  // namespace

std::string explainingLine(const protocol::Exited& exit) {
  std::string line = choose(exit);
  constexpr std::size_t kLongest = 300;
  if (line.size() > kLongest) line = line.substr(0, kLongest) + "…";
  return line;
}

int likelyCause(const protocol::Exited& exit) {
  for (const int signal : {SIGKILL, SIGSEGV, SIGBUS, SIGILL, SIGFPE}) {
    if (exit.status.signal == signal) return 0;
  }
  return tellsOfLostConnection(explainingLine(exit)) ? 2 : 1;
}

bool wouldFailAgain(const protocol::Exited& exit) {
  const std::string line = explainingLine(exit);
  const std::string exception = exceptionName(lastException(exit.errors));
  constexpr std::array kMistakes{"ModuleNotFoundError", "ImportError", "SyntaxError",
                                 "IndentationError", "TabError"};
  if (std::any_of(kMistakes.begin(), kMistakes.end(),
                  [&](const char* name) { return exception == name; })) {
    return true;
  }
  if (contains(line, "could not access or find the executable")) return true;
  if (contains(exit.errors, "can't open file '") && exit.status.code == kUsage) return true;
  if (exit.status.code == kUsage && contains(exit.errors, "usage: ")) return true;
  if (exit.status.code == kCommandNotFound && contains(exit.errors, "not found")) return true;
  return exit.status.code == kNotExecutable && !exit.errors.empty();
}

std::string failureSentence(const std::string& who, const protocol::Exited& exit, int generation) {
  if (!exit.error.empty()) {
    return fmt::format("{} could not be started in generation {}: {}", who, generation, exit.error);
  }
  const std::string line = explainingLine(exit);
  return fmt::format("{} {} in generation {}, after {}{}{}", who, describeExit(exit.status),
                     generation, describeDuration(Duration(exit.ran_ms)), line.empty() ? "" : ": ",
                     line);
}

}  // namespace dure::gang
