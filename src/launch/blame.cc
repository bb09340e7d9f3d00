#include "launch/blame.h"

#include <signal.h>

#include <algorithm>
#include <cctype>

#include <fmt/core.h>

#include "base/text.h"

namespace dure {
namespace {

// The line a person would look for: the last that names an error, or else the last one.
std::string tellingLine(const std::string& tail) {
  std::string last;
  std::string error;
  for (std::string line : split(tail, '\n')) {
    while (!line.empty() && (line.back() == ' ' || line.back() == '\r')) line.pop_back();
    // A ruler between paragraphs tells nothing.
    if (std::none_of(line.begin(), line.end(),
                     [](unsigned char c) { return std::isalnum(c) != 0; })) {
      continue;
    }
    last = line;
    const bool indented = line.front() == ' ' || line.front() == '\t';
    const auto says = [&](const char* words) { return line.find(words) != std::string::npos; };
    if (!indented &&
        (says("Error") || says("error:") || says("Exception") || says("noticed that process"))) {
      error = line;
    }
  }
  std::string& line = error.empty() ? last : error;
  constexpr std::size_t kLongest = 300;
  if (line.size() > kLongest) line = line.substr(0, kLongest) + "…";
  return line;
}

}  // namespace

int likelyCause(const Exited& exit) {
  for (const int signal : {SIGKILL, SIGSEGV, SIGBUS, SIGILL, SIGFPE}) {
    if (exit.status.signal == signal) return 0;
  }
  const std::string line = tellingLine(exit.tail);
  for (const char* words : {"Connection", "connection", "Broken pipe", "peer", "is gone"}) {
    if (line.find(words) != std::string::npos) return 2;
  }
  return 1;
}

std::string failureSentence(const std::string& who, const Exited& exit, int generation) {
  if (!exit.error.empty()) {
    return fmt::format("{} could not be started in generation {}: {}", who, generation, exit.error);
  }
  const std::string line = tellingLine(exit.tail);
  return fmt::format("{} {} in generation {}, after {}{}{}", who, describeExit(exit.status),
                     generation, describeDuration(Duration(exit.ran_ms)), line.empty() ? "" : ": ",
                     line);
}

}  // namespace dure
