#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "format/arrow_file.h"
#include "format/dataset_source.h"

namespace dure::format {

// The rows of the files, one file after the other; the columns are chosen by the options or by
// their usual names. `name` is for messages.
Result<std::unique_ptr<SourceSplit>> makeArrowSplit(const std::string& name,
                                                    std::vector<ArrowFile> files,
                                                    const DatasetOptions& options);

// The column that makeArrowSplit takes for the labels; NotFound if there is none.
Result<std::size_t> labelColumn(const ArrowSchema& schema, const DatasetOptions& options);

}  // namespace dure::format
