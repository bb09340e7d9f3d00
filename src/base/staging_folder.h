#pragma once

#include <string>

#include "base/files.h"
#include "base/result.h"

namespace dure {

// A directory in the making of files: FOLDER/.NAME.TOKEN.tmp, with a lock in it that is held while
// its maker lives. What is written there is renamed into FOLDER, which is one step since both are
// on one file system. It goes with everything that is still in it; those of makers that were killed
// go when the next of the same NAME is made.
class StagingFolder {
 public:
  // Makes FOLDER, too.
  static Result<StagingFolder> make(const std::string& folder, const std::string& name);
  StagingFolder(StagingFolder&& other) noexcept = default;
  StagingFolder& operator=(StagingFolder&&) = delete;
  ~StagingFolder();

  // Where a file of this name is to be written.
  std::string path(const std::string& file) const { return path_ + "/" + file; }
  // Puts it into its folder, in place of what is there. The directory must be synced afterwards.
  Status keep(const std::string& file) const;

 private:
  StagingFolder(std::string folder, std::string path, Result<FileLock> lock)
      : folder_(std::move(folder)), path_(std::move(path)), lock_(std::move(lock)) {}
  std::string folder_;
  std::string path_;  // empty: moved from
  Result<FileLock> lock_;
};

}  // namespace dure
