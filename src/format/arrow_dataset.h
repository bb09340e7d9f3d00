#pragma once

#include <string>

#include "base/result.h"
#include "format/dataset_source.h"

namespace dure::format {

// A directory as Hugging Face `datasets` saves it, of one split or of several; a directory with
// train.arrow and test.arrow; or one .arrow file.
bool looksLikeArrow(const std::string& directory);
Result<Source> openArrow(const DatasetOptions& options);

}  // namespace dure::format
