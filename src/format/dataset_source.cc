#include "format/dataset_source.h"

#include <sys/stat.h>

#include <fmt/core.h>

namespace dure::format {

std::string SourceSplit::rowName(std::int64_t row) const { return fmt::format("row {}", row); }

std::string SourceSplit::whereIs(std::int64_t row) const { return name() + ": " + rowName(row); }

Status SourceSplit::checkRows(std::span<const std::int64_t> rows) const {
  for (const std::int64_t row : rows) {
    if (row < 0 || row >= size()) {
      return Error(Code::kInvalid,
                   fmt::format("{}: row {} was asked for but there are {}", name(), row, size()));
    }
  }
  return {};
}

std::vector<std::string> trainNames(const DatasetOptions& options) {
  if (!options.train.empty()) return {options.train};
  return {"train", "training"};
}

std::vector<std::string> testNames(const DatasetOptions& options) {
  if (!options.test.empty()) return {options.test};
  return {"test", "t10k", "validation", "val", "valid"};
}

bool isDirectory(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

}  // namespace dure::format
