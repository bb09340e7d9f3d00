#include "gang/final_output.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <regex>
#include <vector>

#include "base/text.h"

namespace dure::gang {
namespace {

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

// Without what ends them, and without rulers between paragraphs, which tell nothing.
std::vector<std::string> linesOf(const std::string& text) {
  std::vector<std::string> lines;
  for (std::string& line : split(text, '\n')) {
    while (!line.empty() && (line.back() == ' ' || line.back() == '\r')) line.pop_back();
    const bool words =
        std::any_of(line.begin(), line.end(), [](unsigned char c) { return std::isalnum(c) != 0; });
    if (words) lines.push_back(std::move(line));
  }
  return lines;
}

std::string trimmed(const std::string& line) {
  const std::size_t begin = line.find_first_not_of(" \t");
  return begin == std::string::npos ? "" : line.substr(begin);
}

// "[rank0]: " and "[default0]:" are put before the lines of a process by those that run several.
const std::regex& exceptionPattern() {
  static const std::regex pattern(
      R"(^(\[[\w ,.<>-]+\]:? ?)?(([A-Za-z_]\w*\.)*[A-Z_]\w*(Error|Exception|Exit|Interrupt))(: .*)?$)");
  return pattern;
}

// Long lines are no exceptions' names, and are much work for a pattern.
constexpr std::size_t kLongestMatched = 2000;

bool matchException(const std::string& line, std::smatch& match) {
  return line.size() <= kLongestMatched && std::regex_match(line, match, exceptionPattern());
}

}  // namespace

std::string lastException(const std::string& text) {
  static const std::string kHeader = "Traceback (most recent call last):";
  std::string found;
  std::string prefix;
  bool inside = false;  // a traceback, whose first line that is not indented is the exception
  for (const std::string& line : linesOf(text)) {
    if (const std::size_t at = line.find(kHeader); at != std::string::npos) {
      prefix = line.substr(0, at);
      inside = true;
      continue;
    }
    std::smatch match;
    const bool named = matchException(line, match);
    std::string words = line;
    const bool own = line.rfind(prefix, 0) == 0;
    if (own) words = line.substr(prefix.size());
    const bool ends = inside && own && !words.empty() && words[0] != ' ' && words[0] != '\t';
    if (!named && !ends) continue;
    inside = inside && !ends;
    if (named && !ends) words = line.substr(static_cast<std::size_t>(match[1].length()));
    if (contains(words, "ChildFailedError")) continue;
    found = words;
  }
  return found;
}

std::string exceptionName(const std::string& line) {
  std::smatch match;
  return matchException(line, match) ? match[2].str() : "";
}

std::string mpiFailure(const std::string& text) {
  const std::vector<std::string> lines = linesOf(text);
  const auto valueOf = [&](const char* name) -> std::string {
    for (const std::string& line : lines) {
      if (trimmed(line).rfind(name, 0) == 0)
        return trimmed(trimmed(line).substr(std::string(name).size()));
    }
    return "";
  };
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string& line = lines[i];
    if (contains(line, "MPI_ABORT was invoked on rank")) {
      const bool code = i + 1 < lines.size() && contains(lines[i + 1], "with errorcode");
      return line + (code ? " " + lines[i + 1] : "");
    }
    if (contains(line, "was unable to launch the specified application") ||
        contains(line, "was unable to find the specified executable")) {
      return "mpirun could not access or find the executable " + valueOf("Executable:");
    }
    if (contains(line, "noticed that process rank")) return line;
  }
  const std::string rank = mpiRank(text);
  const std::string code = valueOf("Exit code:");
  if (rank.empty() || code.empty()) return "";
  // What the rank said itself stands before what mpirun says.
  const std::string complaint = firstComplaint(text.substr(0, text.find("Primary job")));
  return rank + " exited with " + code + (complaint.empty() ? "" : ": " + complaint);
}

std::string mpiRank(const std::string& text) {
  static const std::regex name(R"(Process name: \[\[\d+,\d+\],(\d+)\])");
  static const std::regex noticed(R"((noticed that process|invoked on) rank (\d+))");
  for (const std::string& line : linesOf(text)) {
    std::smatch match;
    if (line.size() > kLongestMatched) continue;
    if (std::regex_search(line, match, name)) return "MPI rank " + match[1].str();
    if (std::regex_search(line, match, noticed)) return "MPI rank " + match[2].str();
  }
  return "";
}

std::string abortReason(const std::string& text) {
  const std::vector<std::string> lines = linesOf(text);
  std::string found;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (contains(lines[i], "terminate called")) {
      found = lines[i];
      if (i + 1 < lines.size() && contains(lines[i + 1], "what():")) {
        found += ": " + trimmed(lines[i + 1].substr(lines[i + 1].find("what():") + 7));
      }
    } else if (contains(lines[i], "Assertion ") && contains(lines[i], " failed")) {
      found = lines[i];
    }
  }
  return found;
}

bool tellsOfLostConnection(const std::string& line) {
  const std::string words = lower(line);
  constexpr std::array kLost{
      "connection", "broken pipe", " peer", "is gone", "operation now in progress",
      "timed out",  "timeouterror"};
  return std::any_of(kLost.begin(), kLost.end(),
                     [&](const char* lost) { return contains(words, lost); });
}

std::string firstComplaint(const std::string& text) {
  constexpr std::array kErrors{"error",        "exception", "failed",       "failure",
                               "fatal",        "not found", "no such file", "cannot",
                               "can't",        "could not", "denied",       "segmentation fault",
                               "aborted",      "panic",     "unable to",    "out of memory",
                               "no space left"};
  std::string second;
  for (const std::string& line : linesOf(text)) {
    const std::string words = lower(line);
    const bool frame = line[0] == ' ' || line[0] == '\t';
    if (frame || contains(words, "warning") || contains(words, "warn:") ||
        contains(words, "deprecat"))
      continue;
    if (std::none_of(kErrors.begin(), kErrors.end(),
                     [&](const char* e) { return contains(words, e); })) {
      continue;
    }
    if (!tellsOfLostConnection(line)) return line;
    if (second.empty()) second = line;
  }
  return second;
}

std::string lastLine(const std::string& text) {
  const std::vector<std::string> lines = linesOf(text);
  return lines.empty() ? "" : trimmed(lines.back());
}

}  // namespace dure::gang
