#include "pipeline/volume.h"

#include <algorithm>

#include "pipeline/step_entry.h"

namespace dure::pipeline {

std::vector<DoneBefore> doneBefore(const runs::RunStore& store, const runs::RunId& id,
                                   const std::string& part, const std::string& key) {
  std::vector<DoneBefore> found;
  const std::vector<runs::RunId> ids = store.list();
  for (auto run = ids.rbegin(); run != ids.rend(); ++run) {
    if (run->name != id.name || run->number == id.number) continue;
    PartState state;
    for (const StepEntry& entry : readStepEntries(store.paths(*run).events())) {
      if (entry.part == part) apply(state, entry);
    }
    const bool first = state.status == PartStatus::kSucceeded;
    if ((!first && state.status != PartStatus::kCached) || state.key != key) continue;
    // It may have taken it over itself.
    const std::string there = state.reason.substr(std::min(kAsIn.size(), state.reason.size()));
    found.push_back({*run, state.digest, first ? run->text() : there});
  }
  return found;
}

Folders Volume::foldersOf(const std::string& folder) const {
  Folders folders = tree_.foldersOf(folder);
  folders.run = id_.text();
  return folders;
}

Result<std::optional<Reused>> Volume::reuse(const std::string& part, const std::string& folder,
                                            const std::string& key) {
  if (fresh_) return std::optional<Reused>();
  for (const DoneBefore& done : doneBefore(store_, id_, part, key)) {
    const OutputTree other(store_.paths(done.run).directory);
    if (tree_.takeOver(other, part, folder, done.digest)) {
      return std::optional(Reused{done.digest, done.origin});
    }
  }
  return std::optional<Reused>();
}

}  // namespace dure::pipeline
