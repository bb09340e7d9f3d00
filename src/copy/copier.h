#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "copy/share_file.h"
#include "format/dataset.h"

namespace dure::copy {

struct CopyOptions {
  format::DatasetOptions data;
  std::string folder;
  int files = 1;
  bool split = false;  // shards instead of copies
  bool stratified = false;
  std::uint64_t seed = 1;
  bool share = true;   // storage, between copies
  bool force = false;  // overwrite what differs
};

// What was done; of files that were there already with the same bytes, nothing.
struct CopyReport {
  std::vector<std::string> names;    // of the files in the folder, as 0.npz
  std::vector<std::int64_t> rows;    // to train on, of each shard; empty for copies
  std::uint64_t bytes = 0;           // of all files
  int unchanged = 0;                 // how many were there already
  Sharing sharing = Sharing::kCopy;  // between copies
  std::string word_index;            // its name, if there is one beside the data
  std::vector<std::string> warnings;
};

// Hears how far it is. What it returns ends the work, if it is an error.
using CopyProgress = std::function<Status(std::uint64_t done, std::uint64_t of)>;

// Makes FOLDER/0.npz, 1.npz, … of a data set: each the whole set, or disjoint shards of its
// training rows with the whole test set in each. A .npz file is copied as it is. Every file is read
// back and its checksums are compared before it gets its name, and all of them get their names at
// the end. Exists if one of the names is taken by something different, unless `force`.
Result<CopyReport> copyData(const CopyOptions& options, const CopyProgress& progress);

}  // namespace dure::copy
