#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "base/result.h"

namespace dure::format {

// A file in the making: written under a name beside `path`, and in its place only when it is whole
// and on the disk. Unless kept, it is removed.
class NewFile {
 public:
  static Result<NewFile> create(const std::string& path);
  NewFile(NewFile&& other) noexcept = default;
  NewFile& operator=(NewFile&&) = delete;
  ~NewFile();

  Status write(std::string_view bytes);
  // Syncs, renames, syncs the directory. Nothing may be written afterwards.
  Status keep();

 private:
  NewFile(std::string path, std::string temporary, Fd fd)
      : path_(std::move(path)), temporary_(std::move(temporary)), fd_(std::move(fd)) {}
  std::string path_;
  std::string temporary_;
  Fd fd_;  // none: kept, or moved from
};

}  // namespace dure::format
