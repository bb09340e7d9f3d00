#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/files.h"
#include "base/result.h"

namespace dure {

// The directory of checkpoints, as files:
//
//   current.json              which training they belong to, and whether and in which run it ended
//   current.copy.json         the same, in case the first is damaged
//   lock                      held by the run that writes here
//   step-0000000200/          one checkpoint, whole
//     manifest.json           what it is, with size and checksum of every file, and one of itself
//     model.safetensors       the weights by name
//     state.safetensors       what all workers need to go on
//     rank-3.safetensors      what one worker needs, where they differ
//   step-0000000400.part/     one that is being written
//
// A checkpoint counts once it has its final name, and is used only if every checksum is right.
class CheckpointStore {
 public:
  // Makes the directory. Several processes may open it; only the first of a gang calls lock, begin,
  // goOn, clean, publish, prune and finish.
  static Result<CheckpointStore> open(const std::string& directory);

  // Keeps other runs out for as long as the result lives. Exists if another process stays inside
  // for longer than `patience`. Nothing, and no error, where the file system has no locks.
  Result<std::optional<FileLock>> lock(Duration patience) const;

  struct Manifest {
    std::int64_t step = 0;
    int world = 1;
    nlohmann::json about;  // what the training is: another one is not gone on with
    nlohmann::json state;  // where it was
    std::vector<std::string> files;
  };
  struct Found {
    std::string directory;
    Manifest manifest;
  };

  // The newest checkpoint of the current training that is whole, and what is wrong with newer ones,
  // in a sentence each. Nothing found is no error; it is Invalid if there are checkpoints and
  // nothing says any more which training they belong to.
  struct Search {
    std::optional<Found> found;
    std::string training;
    bool finished = false;
    std::string run;  // that began the training or, if it is finished, that ended it
    std::vector<std::string> passed_over;
  };
  Result<Search> findNewest() const;

  // A new training, of `run`: what is there of an ended one stays until the first checkpoint of
  // this one.
  Status begin(const std::string& run);
  // On with the training that was found: whatever has a later step is damaged and is removed, so
  // that it does not count among those to keep.
  Status goOn(const Search& search);
  // Removes what was left half-written.
  Status clean();

  // Where the files of a checkpoint are written; the directory is made.
  Result<std::string> stage(std::int64_t step) const;
  // Says that a staged file is whole: it is synced, and its checksum kept beside it.
  static Status seal(const std::string& staged, const std::string& file);
  static bool isSealed(const std::string& staged, const std::string& file);
  // Says that a staged file will never be whole, for whoever waits for it.
  static void markFailed(const std::string& staged, const std::string& file);
  static bool hasFailed(const std::string& staged, const std::string& file);
  // All files are sealed: gives the checkpoint its name.
  Status publish(const Manifest& manifest) const;
  void discard(std::int64_t step) const;
  // The newest `keep` of this training stay.
  Status prune(int keep) const;
  // This training has ended, in `run`.
  Status finish(const std::string& run) const;

 private:
  explicit CheckpointStore(std::string directory) : directory_(std::move(directory)) {}

  Result<Manifest> verify(const std::string& directory, const std::string& training) const;
  std::string pathOf(std::int64_t step) const;
  Result<nlohmann::json> readCurrent() const;
  Status writeCurrent(bool finished, const std::string& run) const;

  std::string directory_;
  std::string training_;  // of this process, once it began one or went on with one
};

}  // namespace dure
