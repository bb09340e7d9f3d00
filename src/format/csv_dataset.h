#pragma once

#include <string>

#include "base/result.h"
#include "format/dataset_source.h"
#include "format/mapped_file.h"

namespace dure::format {

// .csv or .tsv, packed as .gz or not.
bool isCsvName(const std::string& path);

// train.csv and test.csv in a directory, or one file.
bool looksLikeCsv(const std::string& directory);
Result<Source> openCsv(const DatasetOptions& options);

// The same for files that are already there; `test` may be null.
Result<Source> openCsvFiles(const FileBytes& train, const FileBytes* test,
                            const DatasetOptions& options);

}  // namespace dure::format
