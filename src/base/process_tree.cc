#include "base/process_tree.h"

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <thread>

#include <fmt/core.h>

#include "base/files.h"
#include "base/text.h"

namespace dure {
namespace {

constexpr std::chrono::milliseconds kFirstWait{20};
constexpr std::chrono::milliseconds kLongestWait{640};
constexpr std::size_t kLongestEnvironment = std::size_t{16} << 20;
constexpr std::size_t kNamedAtMost = 5;
constexpr int kMostLooks = 10;
// How long a program may take to come to be on a busy machine.
constexpr std::chrono::seconds kLongestExec{1};

std::vector<pid_t> allProcesses() {
  std::vector<pid_t> pids;
  std::error_code error;
  for (std::filesystem::directory_iterator it("/proc", error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name.find_first_not_of("0123456789") == std::string::npos) {
      pids.push_back(std::atoi(name.c_str()));
    }
  }
  return pids;
}

struct Stat {
  std::string name;
  char state = 0;
  pid_t parent = 0;
};

std::optional<Stat> statOf(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  std::getline(file, text);
  // "pid (name) state parent …", where the name may hold anything.
  const std::size_t before = text.find('(');
  const std::size_t after = text.rfind(')');
  Stat stat;
  if (before == std::string::npos || after == std::string::npos ||
      std::sscanf(text.c_str() + after + 1, " %c %d", &stat.state, &stat.parent) != 2) {
    return std::nullopt;
  }
  stat.name = text.substr(before + 1, after - before - 1);
  return stat;
}

// Whether the process is just becoming another program: it has its memory, and its arguments and
// environment cannot be seen yet.
bool isBecomingAProgram(pid_t pid) {
  constexpr std::size_t kSize = 20;       // of its memory, counted from the state on
  constexpr std::size_t kArguments = 45;  // where they begin
  const auto text = readFile(fmt::format("/proc/{}/stat", pid), 4096);
  const std::size_t name_end = text ? text->rfind(") ") : std::string::npos;
  if (name_end == std::string::npos) return false;
  const std::vector<std::string> fields = split(text->substr(name_end + 2), ' ');
  return fields.size() > kArguments && fields[kSize] != "0" && fields[kArguments] == "0";
}

// Empty if the process is gone, is the kernel's, or is none of our business.
std::string environmentOf(pid_t pid) {
  const std::string path = fmt::format("/proc/{}/environ", pid);
  const auto deadline = std::chrono::steady_clock::now() + kLongestExec;
  // Empty twice with no sign of a new program in between, it is empty.
  for (int empty = 0; empty < 2;) {
    const auto text = readFile(path, kLongestEnvironment);
    if (!text) return "";
    if (!text->empty()) return *text;
    if (!isBecomingAProgram(pid)) {
      ++empty;
      continue;
    }
    if (std::chrono::steady_clock::now() > deadline) break;
    empty = 0;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return "";
}

// The children of every process. Also works where the kernel lists no children.
std::map<pid_t, std::vector<pid_t>> processTree() {
  std::map<pid_t, std::vector<pid_t>> tree;
  for (const pid_t pid : allProcesses()) {
    if (const auto stat = statOf(pid)) tree[stat->parent].push_back(pid);
  }
  return tree;
}

std::vector<pid_t> listChildren() {
  std::vector<pid_t> children;
  std::error_code error;
  for (std::filesystem::directory_iterator it("/proc/self/task", error), end; !error && it != end;
       it.increment(error)) {
    std::ifstream list(it->path() / "children");
    if (!list.is_open()) return processTree()[getpid()];
    for (pid_t pid = 0; list >> pid;) children.push_back(pid);
  }
  return children;
}

}  // namespace

Status adoptOrphans() {
  if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) return systemError("prctl");
  return {};
}

std::vector<pid_t> childProcesses() {
  std::vector<pid_t> children = listChildren();
  // While some of them die others may be missing from the list: until it is the same twice.
  for (int attempt = 0; attempt < kMostLooks; ++attempt) {
    const std::vector<pid_t> before = std::exchange(children, listChildren());
    if (children == before) break;
  }
  return children;
}

void killTrees(const std::vector<pid_t>& roots) {
  if (roots.empty()) return;
  auto tree = processTree();
  std::vector<pid_t> pending = roots;
  while (!pending.empty()) {
    const pid_t pid = pending.back();
    pending.pop_back();
    kill(pid, SIGKILL);
    const auto& below = tree[pid];
    pending.insert(pending.end(), below.begin(), below.end());
    tree[pid].clear();
  }
}

std::vector<pid_t> processesWith(const std::function<bool(std::string_view entry)>& matches) {
  std::set<pid_t> own;
  for (pid_t pid = getpid(); pid > 0 && own.insert(pid).second;) {
    const auto stat = statOf(pid);
    pid = stat ? stat->parent : 0;
  }
  std::vector<pid_t> found;
  for (const pid_t pid : allProcesses()) {
    if (own.contains(pid)) continue;
    const std::vector<std::string> entries = split(environmentOf(pid), '\0');
    if (std::any_of(entries.begin(), entries.end(), matches)) found.push_back(pid);
  }
  return found;
}

std::string describeProcess(pid_t pid) {
  const auto stat = statOf(pid);
  return stat ? fmt::format("{} ({})", pid, toValidUtf8(stat->name)) : std::to_string(pid);
}

std::string describeProcesses(const std::vector<pid_t>& pids) {
  std::vector<std::string> words;
  for (const pid_t pid : pids) {
    if (words.size() < kNamedAtMost) words.push_back(describeProcess(pid));
  }
  std::string text = (pids.size() == 1 ? "process " : "processes ") + join(words, ", ");
  if (pids.size() > words.size()) text += fmt::format(" and {} more", pids.size() - words.size());
  return text;
}

Purge::Purge(std::chrono::milliseconds patience)
    : give_up_(std::chrono::steady_clock::now() + patience), wait_(kFirstWait) {}

std::chrono::milliseconds Purge::strike(const std::vector<pid_t>& roots) {
  killTrees(roots);
  return std::exchange(wait_, std::min(wait_ * 2, kLongestWait));
}

void Purge::progress() { wait_ = kFirstWait; }

bool Purge::exhausted() const { return std::chrono::steady_clock::now() >= give_up_; }

}  // namespace dure
