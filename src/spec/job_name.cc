#include "spec/job_name.h"

#include <cctype>
#include <filesystem>

#include "base/text.h"
#include "spec/fields.h"

namespace dure::spec {
namespace {

namespace fs = std::filesystem;

std::string stemOf(const std::string& path) { return fs::path(path).stem().string(); }

bool isInterpreter(const std::string& program) {
  const std::string name = fs::path(program).filename().string();
  return name.starts_with("python") || name == "sh" || name == "bash" || name == "env";
}

std::string programName(std::vector<std::string> command) {
  if (command.size() == 3 && command[0] == "sh" && command[1] == "-c") {
    command = split(command[2], ' ');
  }
  if (command.empty()) return "";
  if (!isInterpreter(command[0])) return stemOf(command[0]);
  for (std::size_t i = 1; i < command.size(); ++i) {
    if (command[i] == "-c") break;
    if (command[i] == "-m" && i + 1 < command.size()) return command[i + 1];
    const bool assignment = command[i].find('=') != std::string::npos;
    if (!command[i].starts_with('-') && !assignment && !isInterpreter(command[i])) {
      return stemOf(command[i]);
    }
  }
  return stemOf(command[0]);
}

}  // namespace

std::string toJobName(std::string_view text) {
  std::string name;
  for (const char c : text) {
    if (name.size() == kMaxNameLength) break;
    const auto byte = static_cast<unsigned char>(c);
    const bool letter = byte < 0x80 && std::isalpha(byte) != 0;
    const bool digit = byte < 0x80 && std::isdigit(byte) != 0;
    if (letter || (digit && !name.empty())) {
      name += static_cast<char>(std::tolower(byte));
    } else if (!name.empty() && name.back() != '-') {
      name += '-';
    }
  }
  while (!name.empty() && name.back() == '-') name.pop_back();
  return name.empty() ? "job" : name;
}

std::string defaultJobName(const std::string& file, const std::vector<std::string>& command) {
  return toJobName(file.empty() ? programName(command) : stemOf(file));
}

}  // namespace dure::spec
