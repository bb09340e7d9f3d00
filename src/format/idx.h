#pragma once

#include <string>

#include "base/result.h"
#include "format/array.h"
#include "format/dataset_source.h"
#include "format/mapped_file.h"

namespace dure::format {

// The array of an idx file, plain (a view of the mapping) or packed by gzip (in memory of its own).
// Numbers of several bytes are in the other byte order.
Result<Array> readIdx(const FileBytes& file);

// A directory with the files' usual names: train-images-idx3-ubyte, t10k-labels-idx1-ubyte.gz, …
bool looksLikeIdx(const std::string& directory);
Result<Source> openIdx(const DatasetOptions& options);

}  // namespace dure::format
