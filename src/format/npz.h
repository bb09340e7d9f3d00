#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "format/array.h"
#include "format/dataset_source.h"
#include "format/mapped_file.h"
#include "format/zip_directory.h"

namespace dure::format {

// A .npz file: .npy files in a zip file. Constant after opening.
class Npz {
 public:
  static Result<Npz> open(FileBytes file);

  // The arrays' names, without ".npy".
  std::vector<std::string> names() const;
  // Stored arrays are views of the file (aligned or not), deflated ones are unpacked by each call.
  // NotFound if there is none of that name.
  Result<Array> read(const std::string& name) const;

 private:
  Npz(FileBytes file, std::vector<ZipMember> members)
      : file_(std::move(file)), members_(std::move(members)) {}
  FileBytes file_;
  std::vector<ZipMember> members_;
};

// A .npz file, or a directory with .npy files, 0.npz, or train.npz and test.npz.
bool looksLikeNumpy(const std::string& directory);
Result<Source> openNumpy(const DatasetOptions& options);

}  // namespace dure::format
