#include "base/staging_folder.h"

#include <sys/stat.h>

#include <cstdio>

#include <fmt/core.h>

#include "base/process.h"

namespace dure {
namespace {

constexpr std::size_t kStagingToken = 16;
constexpr int kStagingAttempts = 8;
constexpr const char* kStagingEnding = ".tmp";
constexpr const char* kStagingLock = "/lock";

bool isStaging(const std::string& entry, const std::string& begin) {
  const std::string_view ending = kStagingEnding;
  return entry.size() == begin.size() + kStagingToken + ending.size() && entry.starts_with(begin) &&
         entry.ends_with(ending) &&
         entry.find_first_not_of("0123456789abcdef", begin.size()) == entry.size() - ending.size();
}

// Whoever holds no lock is not alive; nobody can tell where there are no locks.
void removeAbandoned(const std::string& folder, const std::string& begin, const std::string& own) {
  for (const std::string& entry : listDirectory(folder)) {
    const std::string path = folder + "/" + entry;
    if (path == own || !isStaging(entry, begin)) continue;
    if (FileLock::acquire(path + kStagingLock)) static_cast<void>(removeTree(path));
  }
}

}  // namespace

Result<StagingFolder> StagingFolder::make(const std::string& folder, const std::string& name) {
  const std::string whole = folder.empty() ? "." : folder;
  if (auto made = makeDirectories(whole); !made) return std::move(made).error();
  const std::string begin = "." + name + ".";
  // Somebody who cleans up may come between making the directory and locking it.
  for (int attempt = 0; attempt < kStagingAttempts; ++attempt) {
    std::string path = fmt::format("{}/{}{}{}", whole, begin,
                                   randomToken().substr(0, kStagingToken), kStagingEnding);
    if (mkdir(path.c_str(), 0777) != 0) return systemError("write to " + whole);
    auto lock = FileLock::acquire(path + kStagingLock);
    if (!lock && lock.error().code() != Code::kUnavailable) {
      static_cast<void>(removeTree(path));
      if (attempt + 1 < kStagingAttempts) continue;
      return std::move(lock).error().during("write to " + whole);
    }
    removeAbandoned(whole, begin, path);
    return StagingFolder(whole, std::move(path), std::move(lock));
  }
  return Error(Code::kIo, "write to " + whole);
}

StagingFolder::~StagingFolder() {
  if (!path_.empty()) static_cast<void>(removeTree(path_));
}

Status StagingFolder::keep(const std::string& file) const {
  const std::string to = folder_ + "/" + file;
  if (rename(path(file).c_str(), to.c_str()) != 0) return systemError("write " + to);
  return {};
}

}  // namespace dure
