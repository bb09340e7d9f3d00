#include "base/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include <fmt/core.h>

#include "base/temporary_name.h"

namespace dure {
namespace {

namespace fs = std::filesystem;

// The size up to and with the last newline.
Result<off_t> wholeLines(int fd) {
  struct stat info {};
  if (fstat(fd, &info) != 0) return systemError("stat");
  off_t end = info.st_size;
  char block[4096];
  while (end > 0) {
    const off_t begin = std::max<off_t>(0, end - static_cast<off_t>(sizeof block));
    const ssize_t got = pread(fd, block, static_cast<std::size_t>(end - begin), begin);
    if (got <= 0) return systemError("read");
    for (ssize_t i = got - 1; i >= 0; --i) {
      if (block[i] == '\n') return begin + i + 1;
    }
    end = begin;
  }
  return off_t{0};
}

}  // namespace

Result<std::string> readFile(const std::string& path, std::size_t limit) {
  const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return systemError(path);
  struct stat info {};
  if (fstat(fd.get(), &info) != 0) return systemError(path);
  if (S_ISDIR(info.st_mode)) return Error(Code::kInvalid, path + ": is a directory");
  const auto tooLarge = [&] {
    return Error(Code::kInvalid, fmt::format("{}: larger than {} bytes", path, limit));
  };
  if (S_ISREG(info.st_mode) && static_cast<std::size_t>(info.st_size) > limit) return tooLarge();
  std::string content;
  char block[65536];
  while (true) {
    const ssize_t got = read(fd.get(), block, sizeof block);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return systemError(path);
    if (got == 0) return content;
    content.append(block, static_cast<std::size_t>(got));
    if (content.size() > limit) return tooLarge();
  }
}

Status writeAll(int fd, std::string_view data) {
  while (!data.empty()) {
    const ssize_t wrote = write(fd, data.data(), data.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return systemError("write");
    data.remove_prefix(static_cast<std::size_t>(wrote));
  }
  return {};
}

Status replaceFile(const std::string& path, std::string_view content, mode_t mode) {
  const std::string temporary = temporaryName(path);
  const auto failed = [&](Error error) -> Status {
    unlink(temporary.c_str());
    return std::move(error).during("write " + path);
  };
  Fd fd(open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
  if (!fd) return systemError("write " + path);
  if (auto wrote = writeAll(fd.get(), content); !wrote) return failed(std::move(wrote).error());
  if (fsync(fd.get()) != 0) return failed(systemError("sync"));
  if (rename(temporary.c_str(), path.c_str()) != 0) return failed(systemError("rename"));
  return syncDirectory(fs::path(path).parent_path().string());
}

Status makeDirectories(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (!error) return {};
  errno = error.value();
  return systemError("create " + path);
}

Status removeTree(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) return Error(Code::kIo, "remove " + path + ": " + error.message());
  return {};
}

Status syncDirectory(const std::string& path) {
  const Fd fd(open(path.empty() ? "." : path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd || fsync(fd.get()) != 0) return systemError("sync " + path);
  return {};
}

std::vector<std::string> listDirectory(const std::string& path) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool fileExists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

std::string absolutePath(const std::string& path) {
  std::error_code error;
  const fs::path absolute = fs::absolute(path, error).lexically_normal();
  std::string text = error ? path : absolute.string();
  if (text.size() > 1 && text.back() == '/') text.pop_back();
  return text;
}

Result<AppendFile> AppendFile::open(const std::string& path) {
  Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!fd) return systemError("open " + path);
  const auto size = wholeLines(fd.get());
  if (!size) return Error(size.error()).during("open " + path);
  if (ftruncate(fd.get(), *size) != 0) return systemError("truncate " + path);
  return AppendFile(std::move(fd), *size);
}

Status AppendFile::append(std::string_view bytes) {
  auto written = writeAll(fd_.get(), bytes);
  if (written) {
    size_ += static_cast<off_t>(bytes.size());
  } else if (ftruncate(fd_.get(), size_) != 0) {
    return systemError("take back what was written by half");
  }
  return written;
}

Status AppendFile::sync() {
  if (fdatasync(fd_.get()) != 0) return systemError("sync");
  return {};
}

Result<FileLock> FileLock::acquire(const std::string& path) {
  Fd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!fd) return systemError("open " + path);
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  if (fcntl(fd.get(), F_SETLK, &lock) == 0) return FileLock(std::move(fd));
  for (const int none : {ENOLCK, EOPNOTSUPP, ENOSYS, EINVAL}) {
    if (errno == none) return Error(Code::kUnavailable, path + ": its file system has no locks");
  }
  if (errno != EACCES && errno != EAGAIN) return systemError("lock " + path);
  const pid_t pid = holder(path).value_or(0);
  return Error(Code::kExists, fmt::format("held by process {}", pid));
}

std::optional<pid_t> FileLock::holder(const std::string& path) {
  const Fd fd(open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!fd) return std::nullopt;
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  if (fcntl(fd.get(), F_GETLK, &lock) != 0 || lock.l_type == F_UNLCK) return std::nullopt;
  return lock.l_pid;
}

}  // namespace dure
