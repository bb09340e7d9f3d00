#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/result.h"

namespace dure {

// The directory of checkpoints, as files:
//
//   current.json              which training they belong to, and whether it has ended
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
  // Makes the directory. Several processes may open it; only the first of a gang calls begin,
  // publish, finish and prune.
  static Result<CheckpointStore> open(const std::string& directory);

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
  // in a sentence each. Nothing found is no error.
  struct Search {
    std::optional<Found> found;
    bool finished = false;
    std::vector<std::string> passed_over;
  };
  Search findNewest() const;

  // A new training: what is there of an ended one stays until the first checkpoint of this one.
  Status begin();
  // Removes what was left half-written.
  Status clean();

  // Where the files of a checkpoint are written; the directory is made.
  Result<std::string> stage(std::int64_t step) const;
  // Says that a staged file is whole: it is synced, and its checksum kept beside it.
  static Status seal(const std::string& staged, const std::string& file);
  static bool isSealed(const std::string& staged, const std::string& file);
  // All files are sealed: gives the checkpoint its name.
  Status publish(const Manifest& manifest) const;
  void discard(std::int64_t step) const;
  // The newest `keep` of the current training stay.
  Status prune(int keep) const;
  Status finish() const;

 private:
  explicit CheckpointStore(std::string directory) : directory_(std::move(directory)) {}

  Result<Manifest> verify(const std::string& directory) const;
  std::string pathOf(std::int64_t step) const;
  nlohmann::json current() const;

  std::string directory_;
};

}  // namespace dure
