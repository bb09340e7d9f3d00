#include "runs/run_mirror.h"

#include <unistd.h>

#include <nlohmann/json.hpp>

namespace dure::runs {

Result<RunMirror> RunMirror::open(const RunPaths& paths) {
  for (const std::string& old : {paths.directory + "/logs", paths.events(), paths.metrics()}) {
    if (auto removed = removeTree(old); !removed) return std::move(removed).error();
  }
  auto events = AppendFile::open(paths.events());
  if (!events) return std::move(events).error();
  return RunMirror(paths, *std::move(events));
}

void RunMirror::note(Status written) {
  if (!written && status_) status_ = std::move(written);
}

void RunMirror::seen(const RunView& run) {
  for (; told_ < run.entries.size(); ++told_) {
    note(events_.append(gang::toJson(run.entries[told_]).dump() + "\n"));
  }
}

void RunMirror::output(int generation, int rank, std::string_view lines) {
  const std::pair key(generation, rank);
  auto log = logs_.find(key);
  if (log == logs_.end()) {
    if (auto made = makeDirectories(paths_.logs(generation)); !made) return note(std::move(made));
    auto file = AppendFile::open(paths_.log(generation, rank));
    if (!file) return note(std::move(file).error());
    log = logs_.emplace(key, *std::move(file)).first;
  }
  note(log->second.append(lines));
}

}  // namespace dure::runs
