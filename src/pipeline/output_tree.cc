#include "pipeline/output_tree.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "base/files.h"
#include "pipeline/digest.h"

namespace dure::pipeline {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLargestReport = std::size_t{1} << 20;

// A folder may be "train/3"; its place among the unfinished ones is one name.
std::string flat(std::string folder) {
  for (char& c : folder) c = c == '/' ? '.' : c;
  return folder;
}

std::string parentOf(const std::string& path) { return fs::path(path).parent_path().string(); }

}  // namespace

Folders OutputTree::foldersOf(const std::string& folder) const {
  const std::string work = root_ + "/work/" + flat(folder);
  return {.run = "",
          .volume = volume(),
          .out = work + "/out",
          .scratch = work + "/scratch",
          .reports = root_ + "/reports"};
}

Status OutputTree::prepare(const std::string& folder, bool goes_on) {
  const Folders folders = foldersOf(folder);
  // Its attempt has succeeded and was published; whoever did that was killed before it was noted.
  if (goes_on && has(folder)) return {};
  if (auto s = removeTree(finished(folder)); !s) return s;
  if (!goes_on) {
    if (auto s = removeTree(parentOf(folders.out)); !s) return s;
  }
  for (const std::string& directory :
       {folders.out, folders.scratch, folders.reports, parentOf(finished(folder))}) {
    if (auto s = makeDirectories(directory); !s) return s;
  }
  return {};
}

Status OutputTree::putInPlace(const std::string& folder) {
  const Folders folders = foldersOf(folder);
  if (auto s = syncTree(folders.out); !s) return s;
  if (rename(folders.out.c_str(), finished(folder).c_str()) != 0) {
    return systemError("publish the output of " + folder);
  }
  if (auto s = syncDirectory(parentOf(finished(folder))); !s) return s;
  return removeTree(parentOf(folders.out));
}

Result<std::string> OutputTree::publish(const std::string& folder) {
  const std::string out = foldersOf(folder).out;
  // Whoever published it may have been killed before that was noted.
  const bool published = !fileExists(out) && fileExists(finished(folder));
  auto digest = digestTree(published ? finished(folder) : out);
  if (!digest) return std::move(digest).error().during("look at the output of " + folder);
  if (published) {
    if (auto s = removeTree(parentOf(out)); !s) return std::move(s).error();
    return digest;
  }
  if (auto s = putInPlace(folder); !s) return std::move(s).error();
  return digest;
}

Status OutputTree::takeOver(const OutputTree& other, const std::string& part,
                            const std::string& folder, const std::string& digest) {
  if (auto s = prepare(folder, false); !s) return s;
  const std::string out = foldersOf(folder).out;
  if (auto s = removeTree(out); !s) return s;
  // It may be changed or removed while it is copied: what counts is the copy.
  const Error gone(Code::kNotFound, "the output of " + folder + " is not there any more");
  if (!cloneTree(other.finished(folder), out)) return gone;
  const auto found = digestTree(out);
  if (!found || *found != digest) return gone;
  if (const auto reported = readFile(other.reportOf(part), kLargestReport)) {
    if (auto s = report(part, *reported); !s) return s;
  }
  return putInPlace(folder);
}

bool OutputTree::has(const std::string& folder) const { return fileExists(finished(folder)); }

Status OutputTree::report(const std::string& part, const std::string& text) {
  if (auto s = makeDirectories(root_ + "/reports"); !s) return s;
  return replaceFile(reportOf(part), text);
}

std::vector<OutputTree::File> OutputTree::list() const {
  std::vector<File> files;
  std::error_code error;
  fs::recursive_directory_iterator entry(volume(), error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    struct stat info {};
    if (lstat(entry->path().c_str(), &info) != 0 || S_ISDIR(info.st_mode)) continue;
    files.push_back({.name = entry->path().lexically_relative(volume()).string(),
                     .bytes = info.st_size,
                     .changed = info.st_mtime});
  }
  std::sort(files.begin(), files.end(),
            [](const File& a, const File& b) { return a.name < b.name; });
  return files;
}

}  // namespace dure::pipeline
