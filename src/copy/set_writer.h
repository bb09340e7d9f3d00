#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "copy/shards.h"
#include "format/dataset.h"
#include "format/mapped_file.h"

namespace dure::copy {

// Hears of so many more bytes that were read or written. What it returns ends the work, if it is an
// error. Called from several threads at once.
using Progress = std::function<Status(std::uint64_t bytes)>;

struct Assignment {
  std::vector<ShardNumber> shard_of;  // of each training row; empty: one file gets all, in order
  std::uint64_t seed = 1;             // of the order within shards
};

// Writes a data set as .npz files, one per path, in one pass over it: its training rows as they are
// assigned, its test rows whole in each. Arrays are named as in its files, or else x_train,
// y_train, x_test and y_test; `class_names` is added where the files name classes. What else lies
// in the .npz file `source` (null: in none) goes along. The order of the rows of a shard is
// shuffled, in blocks of some megabytes of rows that lie near each other, so that a set need not
// fit into memory.
//
// Takes some 100 MB of memory at most, beside two bytes a row. On a failure whatever was created
// stays for the caller to remove. Several threads read the set side by side.
Status writeSets(const format::Dataset& dataset, const std::vector<std::string>& paths,
                 const Assignment& assignment, const format::FileBytes* source,
                 const Progress& progress);

// The bytes that writeSets tells of.
std::uint64_t bytesToWrite(const format::Dataset& dataset, std::size_t files);

}  // namespace dure::copy
