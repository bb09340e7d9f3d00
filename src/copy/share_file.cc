#include "copy/share_file.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <vector>

#include "base/fd.h"
#include "base/files.h"

namespace dure::copy {
namespace {

constexpr std::size_t kAtOnce = std::size_t{64} << 20u;

// Through this process, where the kernel does not copy between these file systems by itself.
Status copyByHand(int from, int to) {
  std::vector<char> piece(std::size_t{1} << 20u);
  while (true) {
    const ssize_t got = read(from, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return systemError("read");
    if (got == 0) return {};
    auto wrote = writeAll(to, {piece.data(), static_cast<std::size_t>(got)});
    if (!wrote) return wrote;
  }
}

Status copyBytes(int from, int to) {
  while (true) {
    const ssize_t copied = copy_file_range(from, nullptr, to, nullptr, kAtOnce, 0);
    if (copied == 0) break;
    if (copied > 0 || errno == EINTR) continue;
    for (const int unable : {EXDEV, EINVAL, ENOSYS, EOPNOTSUPP}) {
      if (errno == unable) return copyByHand(from, to);
    }
    return systemError("copy");
  }
  // Some file systems say that there is nothing where there is something.
  return copyByHand(from, to);
}

}  // namespace

const char* sharingName(Sharing sharing) {
  switch (sharing) {
    case Sharing::kReflink:
      return "reflinks";
    case Sharing::kHardLink:
      return "hard links";
    case Sharing::kCopy:
      break;
  }
  return "copies";
}

Result<Sharing> shareFile(const std::string& from, const std::string& to, bool share) {
  const Fd source(open(from.c_str(), O_RDONLY | O_CLOEXEC));
  if (!source) return systemError(from);
  Fd made(open(to.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!made) return systemError("write " + to);
  const auto failed = [&](Error error) {
    unlink(to.c_str());
    return std::move(error).during("write " + to);
  };
  if (share && ioctl(made.get(), FICLONE, source.get()) == 0) {
    if (fsync(made.get()) != 0) return failed(systemError("sync"));
    return Sharing::kReflink;
  }
  if (share) {
    // Following a link: the name must be one of the file itself.
    unlink(to.c_str());
    if (linkat(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), AT_SYMLINK_FOLLOW) == 0) {
      return Sharing::kHardLink;
    }
    made.reset(open(to.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
    if (!made) return systemError("write " + to);
  }
  if (auto copied = copyBytes(source.get(), made.get()); !copied) {
    return failed(std::move(copied).error());
  }
  if (fsync(made.get()) != 0) return failed(systemError("sync"));
  return Sharing::kCopy;
}

}  // namespace dure::copy
