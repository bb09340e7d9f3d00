#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "runs/run_store.h"

namespace dure::runs {

// Reads the logs of a run, also while they are being written: whole lines, each once, generation by
// generation, rank by rank.
class LogFollower {
 public:
  struct Options {
    std::optional<int> rank;
    std::optional<int> generation;  // only this one
  };
  using Lines = std::function<void(int generation, int rank, std::string_view lines)>;

  LogFollower(RunPaths paths, Options options) : paths_(std::move(paths)), options_(options) {}

  // Hands on what has come since the last call. `last`: an unfinished line too.
  void poll(bool last, const Lines& lines);

  // The newest generation that has printed anything.
  static std::optional<int> newestGeneration(const RunPaths& paths);

 private:
  struct File {
    off_t offset = 0;
    std::string rest;
  };
  void pollFile(int generation, int rank, bool last, const Lines& lines);

  const RunPaths paths_;
  const Options options_;
  std::map<std::pair<int, int>, File> files_;
};

}  // namespace dure::runs
