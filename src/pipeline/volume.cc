#include "pipeline/volume.h"

#include <cstdio>
#include <filesystem>

#include "pipeline/digest.h"
#include "pipeline/step_entry.h"

namespace dure::pipeline {
namespace {

// A folder may be "train/3"; its place among the unfinished ones is one name.
std::string flat(std::string folder) {
  for (char& c : folder) c = c == '/' ? '.' : c;
  return folder;
}

}  // namespace

Folders Volume::foldersOf(const std::string& folder) const {
  const runs::RunPaths paths = store_.paths(id_);
  const std::string work = paths.directory + "/work/" + flat(folder);
  return {.run = id_.text(),
          .volume = paths.volume(),
          .out = work + "/out",
          .scratch = work + "/scratch"};
}

std::string Volume::finished(const std::string& folder) const {
  return store_.paths(id_).volume() + "/" + folder;
}

Status Volume::prepare(const std::string& folder, bool goes_on) {
  const Folders folders = foldersOf(folder);
  if (auto s = removeTree(finished(folder)); !s) return s;
  if (!goes_on) {
    if (auto s = removeTree(std::filesystem::path(folders.out).parent_path().string()); !s)
      return s;
  }
  if (auto s = makeDirectories(folders.out); !s) return s;
  if (auto s = makeDirectories(folders.scratch); !s) return s;
  return makeDirectories(std::filesystem::path(finished(folder)).parent_path().string());
}

Status Volume::putInPlace(const std::string& folder) {
  const Folders folders = foldersOf(folder);
  const std::string work = std::filesystem::path(folders.out).parent_path().string();
  if (auto s = syncTree(folders.out); !s) return s;
  if (rename(folders.out.c_str(), finished(folder).c_str()) != 0) {
    return systemError("publish the output of " + folder);
  }
  const std::string parent = std::filesystem::path(finished(folder)).parent_path().string();
  if (auto s = syncDirectory(parent); !s) return s;
  return removeTree(work);
}

Result<std::string> Volume::publish(const std::string& folder) {
  auto digest = digestTree(foldersOf(folder).out);
  if (!digest) return std::move(digest).error().during("look at the output of " + folder);
  if (auto s = putInPlace(folder); !s) return std::move(s).error();
  return digest;
}

bool Volume::has(const std::string& folder) const { return fileExists(finished(folder)); }

std::optional<Reused> Volume::reuse(const std::string& part, const std::string& folder,
                                    const std::string& key) {
  if (fresh_) return std::nullopt;
  const std::vector<runs::RunId> ids = store_.list();
  for (auto id = ids.rbegin(); id != ids.rend(); ++id) {
    if (id->name != id_.name || id->number == id_.number) continue;
    const runs::RunPaths paths = store_.paths(*id);
    PartState state;
    for (const StepEntry& entry : readStepEntries(paths.events())) {
      if (entry.part == part) apply(state, entry);
    }
    const bool done = state.status == PartStatus::kSucceeded || state.status == PartStatus::kCached;
    if (!done || state.key != key) continue;
    // It may be changed or removed while it is copied: what counts is the copy.
    if (!prepare(folder, false)) return std::nullopt;
    const Folders folders = foldersOf(folder);
    static_cast<void>(removeTree(folders.out));
    if (!cloneTree(paths.volume() + "/" + folder, folders.out)) continue;
    const auto digest = digestTree(folders.out);
    if (!digest || *digest != state.digest) continue;
    if (!putInPlace(folder)) return std::nullopt;
    // Which may have taken it over itself.
    const bool first = state.status == PartStatus::kSucceeded;
    const std::string there = state.reason.substr(std::min(kAsIn.size(), state.reason.size()));
    return Reused{*digest, first ? id->text() : there};
  }
  return std::nullopt;
}

Result<std::string> Volume::digestOf(const std::string& path) const { return digestTree(path); }

}  // namespace dure::pipeline
