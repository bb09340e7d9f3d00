#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace dure {

// The whole file; Invalid, without reading it, if it is larger than `limit` bytes. Reads anything
// that can be read, pipes included.
Result<std::string> readFile(const std::string& path, std::size_t limit);

// Replaces the file by an atomic rename: readers see the new content or the old one, never half of
// either, also after a power cut. `mode` is that of the new file.
Status replaceFile(const std::string& path, std::string_view content, mode_t mode = 0644);

// Writes all of `data`, however often the system takes only a part.
Status writeAll(int fd, std::string_view data);

Status makeDirectories(const std::string& path);
// Success also if there is nothing at `path`. Links are removed, not followed.
Status removeTree(const std::string& path);
// Makes what was created or renamed inside `path` durable.
Status syncDirectory(const std::string& path);
// The names inside, sorted; empty if there is no such directory.
std::vector<std::string> listDirectory(const std::string& path);
bool fileExists(const std::string& path);
std::string absolutePath(const std::string& path);

// A file that only grows, line by line, and has one writer. Not thread-safe.
class AppendFile {
 public:
  // Creates the file if need be. A half-written last line, left by a crash, is cut off first.
  static Result<AppendFile> open(const std::string& path);

  // Hands the bytes to the system, all or none of them; `sync` also waits until they are on the
  // disk.
  Status append(std::string_view bytes);
  Status sync();

 private:
  AppendFile(Fd fd, off_t size) : fd_(std::move(fd)), size_(size) {}
  Fd fd_;
  off_t size_;
};

// Held by the one process that is in charge of something, and freed by the system when that
// process ends, however it ends. Threads of one process do not exclude each other, and asking for
// the holder of a lock that this process holds would let it go: ask about others' only.
class FileLock {
 public:
  // Exists, naming the holder's pid, if another process has it; Unavailable if there are no locks.
  static Result<FileLock> acquire(const std::string& path);
  // The process that holds the lock now.
  static std::optional<pid_t> holder(const std::string& path);

 private:
  explicit FileLock(Fd fd) : fd_(std::move(fd)) {}
  Fd fd_;
};

}  // namespace dure
