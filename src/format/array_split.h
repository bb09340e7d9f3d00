#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "format/array.h"
#include "format/dataset_source.h"

namespace dure::format {

// A split of two arrays of equal length: {rows, …} samples, {rows} or {rows, 1} labels. Invalid if
// they are of other shapes. The names are for messages; `named` are those of the arrays, if they
// have any.
struct ArrayNames {
  std::string samples;
  std::string labels;
};
Result<std::unique_ptr<SourceSplit>> makeArraySplit(const std::string& samples_name, Array samples,
                                                    const std::string& labels_name, Array labels,
                                                    const ArrayNames& named = {});

}  // namespace dure::format
