#include "runs/run_store.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>

#include <fmt/core.h>

#include "base/process.h"
#include "base/text.h"
#include "spec/print.h"

namespace dure::runs {
namespace {

constexpr std::size_t kTokenLimit = 1024;
constexpr const char* kNewPrefix = ".new-";
constexpr const char* kOldPrefix = ".old-";

std::optional<RunId> parseId(const std::string& text) {
  const std::size_t dot = text.rfind('.');
  if (dot == std::string::npos || dot == 0) return std::nullopt;
  RunId id{.name = text.substr(0, dot)};
  const char* begin = text.data() + dot + 1;
  const char* end = text.data() + text.size();
  const auto [parsed, error] = std::from_chars(begin, end, id.number);
  if (error != std::errc() || parsed != end || id.number < 1) return std::nullopt;
  return id;
}

}  // namespace

std::string RunId::text() const { return fmt::format("{}.{}", name, number); }

std::string RunPaths::logs(int generation) const {
  return fmt::format("{}/logs/{}", directory, generation);
}

std::string RunPaths::log(int generation, int rank) const {
  return fmt::format("{}/rank-{}.log", logs(generation), rank);
}

Result<std::string> RunStore::defaultRoot() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  if (const std::string own = variable("DURE_STATE_DIR"); !own.empty()) return absolutePath(own);
  if (const std::string xdg = variable("XDG_STATE_HOME"); !xdg.empty() && xdg[0] == '/') {
    return xdg + "/dure";
  }
  if (const std::string home = variable("HOME"); !home.empty()) return home + "/.local/state/dure";
  return Error(
      Code::kUnavailable,
      "neither DURE_STATE_DIR nor HOME is set: there is no directory for the record of the run");
}

RunPaths RunStore::paths(const RunId& id) const { return {runsDirectory() + "/" + id.text()}; }

std::vector<RunId> RunStore::list() const {
  std::vector<RunId> ids;
  for (const std::string& entry : listDirectory(runsDirectory())) {
    if (auto id = parseId(entry)) ids.push_back(*std::move(id));
  }
  std::sort(ids.begin(), ids.end(), [](const RunId& a, const RunId& b) {
    return a.name != b.name ? a.name < b.name : a.number < b.number;
  });
  return ids;
}

RunId RunStore::next(const std::string& name) const {
  RunId id{.name = name, .number = 1};
  for (const RunId& known : list()) {
    if (known.name == name) id.number = known.number + 1;
  }
  return id;
}

// Directories that a killed process was filling or removing. Nobody does either for an hour.
void RunStore::sweep() const {
  for (const std::string& name : listDirectory(runsDirectory())) {
    if (name.rfind(kNewPrefix, 0) != 0 && name.rfind(kOldPrefix, 0) != 0) continue;
    const std::string path = runsDirectory() + "/" + name;
    struct stat info {};
    if (stat(path.c_str(), &info) != 0 || time(nullptr) - info.st_mtime < 3600) continue;
    static_cast<void>(removeTree(path));
  }
}

Result<OwnedRun> RunStore::create(const spec::Job& job) {
  return create(job.name, {{"job.yaml", spec::printJob(job)}});
}

Result<OwnedRun> RunStore::create(const std::string& name,
                                  const std::map<std::string, std::string>& files) {
  if (auto made = makeDirectories(runsDirectory()); !made) return std::move(made).error();
  sweep();
  std::string temporary = runsDirectory() + "/" + kNewPrefix + "XXXXXX";
  if (mkdtemp(temporary.data()) == nullptr) return systemError("create a run in " + root_);
  const RunPaths hidden{temporary};
  const std::string run_id = randomToken();
  const std::string secret = randomToken();
  const auto filled = [&]() -> Result<FileLock> {
    for (const auto& [file, content] : files) {
      if (auto s = replaceFile(hidden.directory + "/" + file, content); !s)
        return std::move(s).error();
    }
    if (auto s = replaceFile(hidden.id(), run_id); !s) return std::move(s).error();
    if (auto s = replaceFile(hidden.secret(), secret, 0600); !s) return std::move(s).error();
    if (auto s = makeDirectories(hidden.tasks()); !s) return std::move(s).error();
    return FileLock::acquire(hidden.lock());
  }();
  if (!filled) {
    static_cast<void>(removeTree(temporary));
    return Error(filled.error()).during("create a run");
  }
  // Another process may take the number in between; then rename fails and the next one is tried.
  while (true) {
    const RunId id = next(name);
    if (rename(temporary.c_str(), paths(id).directory.c_str()) == 0) {
      if (auto s = syncDirectory(runsDirectory()); !s) return std::move(s).error();
      auto& owned = const_cast<Result<FileLock>&>(filled);
      return OwnedRun{id, paths(id), run_id, secret, *std::move(owned)};
    }
    if (errno != EEXIST && errno != ENOTEMPTY) {
      const Error error = systemError("create run " + id.text());
      static_cast<void>(removeTree(temporary));
      return error;
    }
  }
}

Result<OwnedRun> RunStore::take(const RunId& id) {
  auto lock = FileLock::acquire(paths(id).lock());
  if (!lock && lock.error().code() == Code::kExists) {
    return Error(lock.error()).during(id.text() + " is still running");
  }
  if (!lock) return std::move(lock).error();
  auto secret = readFile(paths(id).secret(), kTokenLimit);
  if (!secret) return std::move(secret).error();
  auto run_id = readFile(paths(id).id(), kTokenLimit);
  // A record of a Dure that gave none: what its ranks wrote is of another run.
  if (!run_id && run_id.error().code() == Code::kNotFound) {
    run_id = randomToken();
    if (auto s = replaceFile(paths(id).id(), *run_id); !s) return std::move(s).error();
  }
  if (!run_id) return std::move(run_id).error();
  return OwnedRun{id, paths(id), *std::move(run_id), *std::move(secret), *std::move(lock)};
}

Result<RunId> RunStore::find(const std::string& text) const {
  const std::vector<RunId> ids = list();
  std::optional<RunId> newest;
  std::vector<std::string> names;
  for (const RunId& id : ids) {
    if (id.text() == text) return id;
    if (id.name == text) newest = id;
    names.push_back(id.name);
  }
  if (newest) return *newest;
  std::string message = fmt::format("no run named \"{}\"", text);
  if (const auto near = closest(text, names)) {
    message += fmt::format("; did you mean \"{}\"?", *near);
  } else {
    message += "; dure ps lists them";
  }
  return Error(Code::kNotFound, message);
}

Status RunStore::remove(const RunId& id) {
  // Out of sight at once, then bit by bit: a reader never sees half of a run.
  const std::string hidden =
      fmt::format("{}/{}{}-{}", runsDirectory(), kOldPrefix, id.text(), getpid());
  if (rename(paths(id).directory.c_str(), hidden.c_str()) != 0) {
    return systemError("remove " + id.text());
  }
  return removeTree(hidden);
}

std::optional<pid_t> RunStore::coordinator(const RunId& id) const {
  return FileLock::holder(paths(id).lock());
}

}  // namespace dure::runs
