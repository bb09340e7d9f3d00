#include "format/new_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "base/files.h"
#include "base/temporary_name.h"

namespace dure::format {

Result<NewFile> NewFile::create(const std::string& path) {
  std::string temporary = temporaryName(path);
  Fd fd(open(temporary.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!fd) return systemError("write " + path);
  return NewFile(path, std::move(temporary), std::move(fd));
}

NewFile::~NewFile() {
  if (fd_) unlink(temporary_.c_str());
}

Status NewFile::write(std::string_view bytes) {
  // In pieces, for the sake of file systems that take no more than 2 GB at once.
  constexpr std::size_t kPiece = 8u << 20u;
  while (!bytes.empty()) {
    const std::string_view piece = bytes.substr(0, kPiece);
    if (auto wrote = writeAll(fd_.get(), piece); !wrote) {
      return std::move(wrote).error().during("write " + path_);
    }
    bytes.remove_prefix(piece.size());
  }
  return {};
}

Status NewFile::keep() {
  if (fsync(fd_.get()) != 0) return systemError("write " + path_ + ": sync");
  if (rename(temporary_.c_str(), path_.c_str()) != 0) {
    return systemError("write " + path_ + ": rename");
  }
  fd_.reset();
  return syncDirectory(std::filesystem::path(path_).parent_path().string());
}

}  // namespace dure::format
