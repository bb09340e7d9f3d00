#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/files.h"
#include "base/result.h"
#include "train/sealed_file.h"

namespace dure::train {

// A gang that writes to a directory of checkpoints: its fencing token.
struct CheckpointOwner {
  std::string run;     // its name, for people
  std::string run_id;  // empty: there is no Dure around it, and none is the same
  int generation = 1;
  std::string token;  // random: of this gang and no other

  bool isSameRun(const std::string& other_id) const {
    return !run_id.empty() && other_id == run_id;
  }
};

// The directory of checkpoints, as files:
//
//   current.json              which training they belong to, whether it ended, and who took the
//                             directory last
//   current.copy.json         the same, in case the first is damaged
//   lock                      held by the run that writes here
//   step-0000000200/          one checkpoint, whole
//     manifest.json           what it is, with size and checksum of every file, and one of itself
//     model.safetensors       the weights by name
//     state.safetensors       what all workers need to go on
//     rank-3.safetensors      what one worker needs, where they differ
//   step-0000000400.2-1f….part/   one that is being written, or removed, by generation 2
//
// A checkpoint counts once it has its final name, and is used only if every checksum is right.
// Nothing is removed because it could not be read.
class CheckpointStore {
 public:
  // Makes the directory. Invalid if this user may not write there. Several processes may open it;
  // only the first of a gang calls lock, begin, resume, clean, publish, prune and finish.
  static Result<CheckpointStore> open(const std::string& directory, CheckpointOwner owner);

  // To look at what is there, with findNewest and nothing else: makes and takes nothing.
  static CheckpointStore view(const std::string& directory) { return {directory, {}}; }

  // Keeps other runs out for as long as the result lives. Exists if another process stays inside
  // for longer than `patience`, Invalid if this user may not lock. Nothing, and no error, where the
  // file system has no locks.
  Result<std::optional<FileLock>> lock(Duration patience) const;
  // Whether an earlier generation of this run took the directory last.
  Result<bool> isOfOlderGeneration() const;

  struct Manifest {
    std::int64_t step = 0;
    int world = 1;
    nlohmann::json about;  // what the training is: it cannot resume another one
    nlohmann::json state;  // where it was
    std::vector<std::string> files;
  };
  struct Found {
    std::string directory;
    Manifest manifest;
  };

  // The newest checkpoint of the current training that is whole, and what is wrong with newer ones,
  // in a sentence each. Nothing found is no error; it is Invalid if there are checkpoints and
  // nothing says any more which training they belong to. What cannot be read now is an error of
  // another kind: it may be the newest.
  struct Search {
    std::optional<Found> found;
    std::string training;
    bool finished = false;
    std::string run;  // that took the directory last or, if it is finished, that ended it
    std::string run_id;
    int generation = 0;
    std::vector<std::string> passed_over;
    std::vector<std::string> superseded;  // newer than what was found: damaged, or of another one
  };
  Result<Search> findNewest() const;

  // Both take the directory: from now on the store refuses whoever took it before (fencing).
  // A new training: what is there of an ended one stays until the first checkpoint of this one.
  Status begin();
  // Resumes the training that was found. Removes what is superseded, so that it does not count
  // among those to keep.
  Status resume(const Search& search);
  // Conflict if another generation of this run has taken the directory since, Exists if another run
  // has.
  Status checkTaken() const;
  // Removes what others have left half-written.
  Status clean() const;

  // Where the files of a checkpoint are written; the directory is made.
  Result<std::string> stage(std::int64_t step) const;
  // Writes a staged file whole, with its checksum beside it.
  static Status write(const std::string& staged, const std::string& file,
                      const std::function<Status(const Sink& sink)>& content);
  static bool isSealed(const std::string& staged, const std::string& file);
  // Says that a staged file will never be whole, for whoever waits for it.
  static void markFailed(const std::string& staged, const std::string& file);
  static bool hasFailed(const std::string& staged, const std::string& file);
  // All files are sealed: gives the checkpoint its name. This, prune and finish do nothing but fail
  // as checkTaken does, if it does.
  Status publish(const Manifest& manifest) const;
  void discard(std::int64_t step) const;
  // The newest `keep` of this training stay, and whatever cannot be read now.
  Status prune(int keep) const;
  // This training has ended, in this run.
  Status finish() const;

 private:
  CheckpointStore(std::string directory, CheckpointOwner owner)
      : directory_(std::move(directory)), owner_(std::move(owner)) {}

  Result<Manifest> verify(const std::string& directory, const std::string& training) const;
  std::string pathOf(std::int64_t step) const;
  std::string partOf(const std::string& path) const;
  Status retire(const std::string& path) const;
  Result<nlohmann::json> readCurrent() const;
  Status writeCurrent(bool finished) const;

  std::string directory_;
  CheckpointOwner owner_;
  std::string training_;  // of this process, once it began one or went on with one
};

}  // namespace dure::train
