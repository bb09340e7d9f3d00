#include "pipeline/digest.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include <fmt/core.h>

#include "base/fd.h"
#include "base/files.h"
#include "base/sha256.h"

namespace dure::pipeline {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBlock = 1 << 20;

// The digest of a file is that of the digests of its blocks, so that no file has to fit in memory.
Result<std::string> digestFile(const std::string& path) {
  const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return systemError(path);
  std::string block(kBlock, '\0');
  std::string digests;
  while (true) {
    std::size_t filled = 0;
    while (filled < kBlock) {
      const ssize_t got = read(fd.get(), block.data() + filled, kBlock - filled);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return systemError(path);
      if (got == 0) break;
      filled += static_cast<std::size_t>(got);
    }
    digests += sha256Hex(std::string_view(block).substr(0, filled));
    if (filled < kBlock) return sha256Hex(digests);
  }
}

// One line for what is at `path`, and for all below it.
Status describeTree(const std::string& path, const std::string& name, std::string& lines) {
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0) return systemError(path);
  if (S_ISLNK(info.st_mode)) {
    std::error_code error;
    const fs::path target = fs::read_symlink(path, error);
    if (error) return systemError(path);
    lines += fmt::format("link {} {}\n", sha256Hex(name), sha256Hex(target.string()));
    return {};
  }
  if (S_ISDIR(info.st_mode)) {
    lines += fmt::format("directory {}\n", sha256Hex(name));
    for (const std::string& child : listDirectory(path)) {
      if (auto s = describeTree(path + "/" + child, name + "/" + child, lines); !s) return s;
    }
    return {};
  }
  if (!S_ISREG(info.st_mode)) return {};  // pipes and sockets have no content
  auto digest = digestFile(path);
  if (!digest) return std::move(digest).error();
  lines += fmt::format("file {} {} {}\n", sha256Hex(name), (info.st_mode & S_IXUSR) != 0, *digest);
  return {};
}

Status copyContent(const Fd& in, const Fd& out, const std::string& path) {
  while (true) {
    const ssize_t sent = copy_file_range(in.get(), nullptr, out.get(), nullptr, kBlock << 6u, 0);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) break;
    if (sent == 0) return {};
  }
  // Not between these file systems, or not at all.
  std::string block(kBlock, '\0');
  while (true) {
    const ssize_t got = read(in.get(), block.data(), block.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return systemError(path);
    if (got == 0) return {};
    if (auto s =
            writeAll(out.get(), std::string_view(block).substr(0, static_cast<std::size_t>(got)));
        !s) {
      return s;
    }
  }
}

Status cloneFile(const std::string& from, const std::string& to, mode_t mode) {
  const Fd in(open(from.c_str(), O_RDONLY | O_CLOEXEC));
  if (!in) return systemError(from);
  {
    const Fd out(open(to.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode & 0777u));
    if (!out) return systemError(to);
    if (ioctl(out.get(), FICLONE, in.get()) == 0) return {};
  }
  unlink(to.c_str());
  if (link(from.c_str(), to.c_str()) == 0) return {};
  const Fd out(open(to.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode & 0777u));
  if (!out) return systemError(to);
  return copyContent(in, out, to);
}

}  // namespace

Result<std::string> digestTree(const std::string& path) {
  std::string lines;
  if (auto s = describeTree(path, "", lines); !s) return std::move(s).error();
  return sha256Hex(lines);
}

Status cloneTree(const std::string& from, const std::string& to) {
  struct stat info {};
  if (lstat(from.c_str(), &info) != 0) return systemError(from);
  if (S_ISLNK(info.st_mode)) {
    std::error_code error;
    fs::copy_symlink(from, to, error);
    if (error) return Error(Code::kIo, to + ": " + error.message());
    return {};
  }
  if (S_ISREG(info.st_mode)) return cloneFile(from, to, info.st_mode);
  if (!S_ISDIR(info.st_mode)) return {};
  if (mkdir(to.c_str(), 0755) != 0) return systemError(to);
  for (const std::string& child : listDirectory(from)) {
    if (auto s = cloneTree(from + "/" + child, to + "/" + child); !s) return s;
  }
  return {};
}

Status syncTree(const std::string& path) {
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0) return systemError(path);
  if (!S_ISDIR(info.st_mode) && !S_ISREG(info.st_mode)) return {};
  if (S_ISDIR(info.st_mode)) {
    for (const std::string& child : listDirectory(path)) {
      if (auto s = syncTree(path + "/" + child); !s) return s;
    }
    return syncDirectory(path);
  }
  const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd || fsync(fd.get()) != 0) return systemError(path);
  return {};
}

}  // namespace dure::pipeline
