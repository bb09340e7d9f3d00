#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace dure::format {

// The bytes of a file, or of a part of it that was unpacked, and the name that messages give them.
// Copies share what the bytes lie in.
struct FileBytes {
  std::string name;
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;

  std::size_t size() const { return bytes.size(); }
  std::string_view text() const {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
};

// Maps a regular file for reading. A file that is cut short by somebody while it is mapped makes
// the system end the program (SIGBUS): data files are replaced, not changed, while they are in use.
Result<FileBytes> mapFile(const std::string& path);

// Reads a regular file into memory, for files that somebody may change meanwhile, as models that
// are served: what they then hold may be damaged, which their readers see, but does not go away.
Result<FileBytes> loadFile(const std::string& path);

// Lets go of the memory that mapped files take at this moment: what is read again comes back from
// the system's cache. For passes over files that are larger than the memory they may take.
void releaseMappedPages();

// Code::kInvalid: "train.npz: at offset 128: WHAT".
Error damaged(const FileBytes& file, std::size_t offset, const std::string& what);

// Reads one thing after the other and never past the end.
class Cursor {
 public:
  explicit Cursor(const FileBytes& file, std::size_t offset = 0) : file_(file), offset_(offset) {}

  std::size_t offset() const { return offset_; }
  std::size_t left() const { return offset_ < file_.size() ? file_.size() - offset_ : 0; }

  // The next `count` bytes, which are `what`: "header says 9000 bytes but the file has 300 left".
  Result<std::span<const std::byte>> take(std::size_t count, std::string_view what);

  template <typename T>
  Result<T> little(std::string_view what) {
    const auto bytes = take(sizeof(T), what);
    if (!bytes) return bytes.error();
    T value;
    std::memcpy(&value, bytes->data(), sizeof value);
    return value;
  }

  Result<std::uint32_t> big32(std::string_view what);

 private:
  const FileBytes& file_;  // outlives the cursor
  std::size_t offset_;
};

}  // namespace dure::format
